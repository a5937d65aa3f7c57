//! The figures of fio's JSON output (`--output-format=json`, fio 3), in its layout and units.

use super::job::{Direction, JobSpec, LatencyTarget};
use serde_json::{json, Map, Value};

const PERCENTILES: [f64; 17] =
    [1.0, 5.0, 10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 95.0, 99.0, 99.5, 99.9, 99.95, 99.99];
/// Bits of a bucket's number within an octave: 64 buckets an octave, as in fio's stat.h. A percentile is exact to 1/64.
const BUCKET_BITS: u32 = 6;

/// Latencies in nanoseconds.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    count: u64,
    min: u64,
    max: u64,
    sum: f64,
    squares: f64,
    buckets: Vec<u64>,
}

impl Samples {
    /// Takes one up.
    #[inline]
    pub fn add(&mut self, ns: u64) {
        if ns < self.min || self.count == 0 {
            self.min = ns;
        }
        self.max = self.max.max(ns);
        self.count += 1;
        let float = ns as f64;
        self.sum += float;
        self.squares += float * float;
        let bucket = bucket(ns);
        match self.buckets.get_mut(bucket) {
            Some(n) => *n += 1,
            None => self.grow(bucket),
        }
    }

    /// Extends the buckets up to `bucket`, for the first value beyond all present buckets.
    #[cold]
    fn grow(&mut self, bucket: usize) {
        self.buckets.resize(bucket + 1, 0);
        self.buckets[bucket] = 1;
    }

    /// Takes all of `other` up.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.min = if self.count == 0 { other.min } else { self.min.min(other.min) };
        self.max = self.max.max(other.max);
        self.count += other.count;
        self.sum += other.sum;
        self.squares += other.squares;
        self.buckets.resize(self.buckets.len().max(other.buckets.len()), 0);
        for (mine, theirs) in self.buckets.iter_mut().zip(&other.buckets) {
            *mine += theirs;
        }
    }

    /// How many.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Their mean; 0 of none.
    pub fn mean(&self) -> f64 {
        if self.count == 0 {
            0.0
        } else {
            self.sum / self.count as f64
        }
    }

    /// The least, the greatest.
    pub fn range(&self) -> (u64, u64) {
        (self.min, self.max)
    }

    /// Returns the value at or below which `percent` of the values lie.
    pub fn percentile(&self, percent: f64) -> u64 {
        let want = (percent / 100.0 * self.count as f64).ceil() as u64;
        let mut seen = 0;
        for (index, n) in self.buckets.iter().enumerate() {
            seen += n;
            if seen >= want.max(1) {
                return value(index).clamp(self.min, self.max);
            }
        }
        self.max
    }

    fn json(&self) -> Value {
        let mean = self.mean();
        let variance = if self.count > 1 {
            ((self.squares - self.count as f64 * mean * mean) / (self.count - 1) as f64).max(0.0)
        } else {
            0.0
        };
        let mut out =
            json!({"min": self.min, "max": self.max, "mean": mean, "stddev": variance.sqrt(), "N": self.count});
        if self.count > 0 {
            let table: Map<String, Value> =
                PERCENTILES.iter().map(|p| (format!("{p:.6}"), json!(self.percentile(*p)))).collect();
            out["percentile"] = Value::Object(table);
        }
        out
    }
}

fn bucket(ns: u64) -> usize {
    let msb = 63 - (ns | 1).leading_zeros();
    if msb <= BUCKET_BITS {
        return ns as usize;
    }
    let shift = msb - BUCKET_BITS;
    (((shift + 1) << BUCKET_BITS) as u64 + (ns >> shift) - (1 << BUCKET_BITS)) as usize
}

/// Middle of a bucket.
fn value(index: usize) -> u64 {
    let index = index as u64;
    if index < 2 << BUCKET_BITS {
        return index;
    }
    let shift = (index >> BUCKET_BITS) - 1;
    let base = (1 << BUCKET_BITS) + (index & ((1 << BUCKET_BITS) - 1));
    (base << shift) + (1 << shift) / 2
}

/// One direction of a job.
#[derive(Debug, Clone, Default)]
pub struct DirectionResult {
    /// Bytes moved.
    pub bytes: u64,
    /// Commands.
    pub ios: u64,
    /// Time from the start of the I/O to its submission.
    pub slat: Samples,
    /// Bytes moved and commands in the ramp, which are in nothing else here.
    pub ramp: (u64, u64),
    /// From submission to completion.
    pub clat: Samples,
    /// From start to completion.
    pub lat: Samples,
}

/// The work and figures of a job.
#[derive(Debug, Clone, Default)]
pub struct JobResult {
    /// Name.
    pub name: String,
    /// Number of the group of jobs that ran together.
    pub group: usize,
    /// Options as written.
    pub options: Vec<(String, String)>,
    /// Whether results of the group are to be merged.
    pub group_reporting: bool,
    /// Read, write, trim.
    pub directions: [DirectionResult; 3],
    /// Flushes.
    pub sync: Samples,
    /// From the first I/O to the last completion, in nanoseconds.
    pub runtime_ns: u64,
    /// Commands that ended with an error.
    pub errors: u64,
    /// Error number with which the job's own rule ended the job; 0 is no error.
    pub error: i32,
    /// The job's findings (a depth, a steady state), in fio's layout.
    pub about: Map<String, Value>,
}

impl JobResult {
    /// An empty result of a job.
    pub fn new(spec: &JobSpec, group: usize) -> Self {
        Self {
            name: spec.name.clone(),
            group,
            options: spec.options.clone(),
            group_reporting: spec.group_reporting,
            ..Self::default()
        }
    }

    /// Takes up a completed I/O.
    pub fn add(&mut self, direction: Direction, bytes: u64, slat_ns: u64, clat_ns: u64) {
        let d = &mut self.directions[direction as usize];
        d.bytes += bytes;
        d.ios += 1;
        d.slat.add(slat_ns);
        d.clat.add(clat_ns);
        d.lat.add(slat_ns + clat_ns);
    }

    /// Takes up an I/O that completed in the ramp.
    pub fn add_ramp(&mut self, direction: Direction, bytes: u64) {
        let ramp = &mut self.directions[direction as usize].ramp;
        *ramp = (ramp.0 + bytes, ramp.1 + 1);
    }

    /// Starts the figures anew. The earlier work remains in the counts of the phase only.
    pub fn begin_anew(&mut self) {
        for d in &mut self.directions {
            let ramp = (d.ramp.0 + d.bytes, d.ramp.1 + d.ios);
            *d = DirectionResult { ramp, ..DirectionResult::default() };
        }
        self.sync = Samples::default();
    }

    /// Notes the depth that a search ended with.
    pub fn note_depth(&mut self, target: &LatencyTarget, depth: u32) {
        let found = json!({
            "latency_depth": depth, "latency_target": target.target_ns, "latency_percentile": target.percentile,
            "latency_window": target.window_us,
        });
        if let Value::Object(found) = found {
            self.about.extend(found);
        }
    }

    fn merge(&mut self, other: &Self) {
        for (mine, theirs) in self.directions.iter_mut().zip(&other.directions) {
            mine.bytes += theirs.bytes;
            mine.ios += theirs.ios;
            mine.slat.merge(&theirs.slat);
            mine.clat.merge(&theirs.clat);
            mine.lat.merge(&theirs.lat);
        }
        self.sync.merge(&other.sync);
        self.runtime_ns = self.runtime_ns.max(other.runtime_ns);
        self.errors += other.errors;
        self.error = if self.error == 0 { other.error } else { self.error };
        self.about.extend(other.about.clone());
    }

    fn json(&self) -> Value {
        let seconds = self.runtime_ns as f64 * 1e-9;
        let rate = |n: u64| if seconds > 0.0 { n as f64 / seconds } else { 0.0 };
        let direction = |d: &DirectionResult| {
            let runtime_ms = if d.ios == 0 { 0 } else { self.runtime_ns.div_ceil(1_000_000) };
            json!({
                "io_bytes": d.bytes, "io_kbytes": d.bytes / 1024, "bw_bytes": rate(d.bytes) as u64,
                "bw": rate(d.bytes) as u64 / 1024, "iops": rate(d.ios), "runtime": runtime_ms, "total_ios": d.ios,
                "short_ios": 0, "drop_ios": 0,
                "slat_ns": d.slat.json(), "clat_ns": d.clat.json(), "lat_ns": d.lat.json(),
            })
        };
        let options: Map<String, Value> = self.options.iter().map(|(k, v)| (k.clone(), json!(v))).collect();
        let error = if self.error == 0 { i32::from(self.errors > 0) * 5 } else { self.error };
        let mut out = json!({
            "jobname": self.name, "groupid": self.group, "error": error, "eta": 0,
            "elapsed": self.runtime_ns.div_ceil(1_000_000_000), "job options": options,
            "read": direction(&self.directions[0]), "write": direction(&self.directions[1]),
            "trim": direction(&self.directions[2]),
            "sync": {"total_ios": self.sync.count(), "lat_ns": self.sync.json()},
            "job_runtime": self.runtime_ns.div_ceil(1_000_000), "total_err": self.errors,
        });
        if let Value::Object(out) = &mut out {
            out.extend(self.about.clone());
        }
        out
    }
}

/// Returns fio's JSON output of these jobs. Members of a group with `group_reporting` become one entry.
pub fn report(results: &[JobResult]) -> Value {
    let mut merged: Vec<JobResult> = Vec::new();
    for result in results {
        match merged.last_mut() {
            Some(last) if last.group == result.group && last.group_reporting && result.group_reporting => {
                last.merge(result)
            }
            _ => merged.push(result.clone()),
        }
    }
    json!({
        "fio version": concat!("wattbell-ssd-", env!("CARGO_PKG_VERSION")),
        "global options": {},
        "jobs": merged.iter().map(JobResult::json).collect::<Vec<_>>(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn buckets_hold_their_values_to_one_part_in_64(ns in 0u64..1 << 50) {
            let middle = value(bucket(ns));
            prop_assert!(middle.abs_diff(ns) <= ns / 64 + 1, "{} for {}", middle, ns);
        }

        #[test]
        fn percentiles_are_near_those_of_the_sorted_list(mut all in prop::collection::vec(1u64..1 << 40, 1..200)) {
            let mut samples = Samples::default();
            all.iter().for_each(|&ns| samples.add(ns));
            all.sort();
            for p in PERCENTILES {
                let exact = all[((p / 100.0 * all.len() as f64).ceil() as usize).max(1) - 1];
                prop_assert!(samples.percentile(p).abs_diff(exact) <= exact / 64 + 1);
            }
        }
    }
}
