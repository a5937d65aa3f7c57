//! Rail steps, sidebands and commands as one sequence in order of time.

use crate::host::{BusSink, CommandTruth};
use crate::pcie::port::Port;
use crate::power::meter::Meter;
use crate::profile::Ps;
use std::collections::VecDeque;
use wattbell_bus::summary::Instants;
use wattbell_bus::{Body, Rail, Record, Summary};

/// Records that wait to be handed out.
#[derive(Default)]
pub struct Merger {
    commands: VecDeque<(Ps, Summary)>,
    rails: VecDeque<(Ps, Rail)>,
    others: Vec<Record>,
}

impl Merger {
    /// A command is over.
    pub fn command(&mut self, c: &CommandTruth) {
        let absent = Instants::ABSENT;
        let instants = Instants {
            doorbell_ps: c.doorbell_ps,
            fetch_ps: c.fetch_ps,
            first_data_ps: c.first_data_ps.unwrap_or(absent),
            last_data_ps: c.last_data_ps.unwrap_or(absent),
            cqe_ps: c.cqe_ps,
            msix_ps: c.msix_ps.unwrap_or(absent),
            cq_head_ps: c.cq_head_ps.unwrap_or(absent),
        };
        let summary = Summary {
            opcode: c.opcode,
            qid: c.qid,
            cid: c.cid,
            status: c.status,
            nsid: c.nsid,
            blocks: c.blocks as u32,
            slba: c.slba,
            flags: 0,
            instants,
        };
        // The interrupt message may be later than the doorbell that released the entry, so they are not quite in order.
        let at = instants.last_ps();
        let mut index = self.commands.len();
        while index > 0 && self.commands[index - 1].0 > at {
            index -= 1;
        }
        if index == self.commands.len() {
            self.commands.push_back((at, summary));
        } else {
            self.commands.insert(index, (at, summary));
        }
    }

    /// Hands out everything before `horizon`, and releases the sink up to there.
    pub fn hand_out<S: BusSink>(&mut self, horizon: Ps, port: &mut Port, meter: &mut Meter, sink: &mut S) {
        self.others.extend(port.take());
        self.others.sort_by_key(|r| std::cmp::Reverse(r.time_ps));
        self.rails.extend(meter.take());
        loop {
            let rail = self.rails.front().map_or(Ps::MAX, |r| r.0);
            let other = self.others.last().map_or(Ps::MAX, |r| r.time_ps);
            let until = rail.min(other).min(horizon);
            while let Some((at, summary)) = self.commands.front().filter(|c| c.0 < until) {
                sink.summary_in_order(*at, summary);
                self.commands.pop_front();
            }
            if until == horizon {
                break;
            }
            if other <= rail {
                if let Some(record) = self.others.pop() {
                    sink.record_in_order(&record);
                }
            } else if let Some((time_ps, rail)) = self.rails.pop_front() {
                sink.record_in_order(&Record { time_ps, body: Body::Rail(rail) });
            }
        }
        sink.release(horizon);
    }

    /// Hands out the remaining records through the sorting sink, at the end of the jobs.
    pub fn finish<S: BusSink>(&mut self, sink: &mut S) {
        for (time_ps, summary) in self.commands.drain(..) {
            sink.record(Record { time_ps, body: Body::Summary(summary) });
        }
        for (time_ps, rail) in self.rails.drain(..) {
            sink.record(Record { time_ps, body: Body::Rail(rail) });
        }
        for record in self.others.drain(..) {
            sink.record(record);
        }
    }
}
