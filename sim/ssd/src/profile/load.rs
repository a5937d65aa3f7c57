//! Reading a profile, and the conditions that it must meet.

use super::{own, Geometry, Profile, LENT_READS};
use std::path::Path;

/// Defaults for profiles that leave a figure out: typical figures, each marked as assumed.
const COMMON: &str = include_str!("../../../profiles/common.toml");

macro_rules! built_in {
    ($($name:literal),* $(,)?) => {
        &[$(($name, include_str!(concat!("../../../profiles/", $name, ".toml")))),*]
    };
}

const BUILT_IN: &[(&str, &str)] = built_in![
    "intel-660p-1tb",
    "crucial-p1-1tb",
    "intel-600p",
    "mx100-like",
    "optane-900p-280gb",
    "optane-900p-480gb",
    "phison-e12-ref",
    "samsung-960",
    "samsung-970-evo-plus",
    "samsung-980-pro",
    "sm2262en-ref-2tb",
    "toshiba-rc100",
    "toshiba-xg6",
    "wd-sn550",
    "wd-sn750",
];

/// Why a profile cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ProfileError {
    /// No such profile.
    #[error("there is no profile `{0}`: built in are {1}; anything else must be the path of a .toml file")]
    Unknown(String, String),
    /// The file cannot be read.
    #[error("profile {0}: {1}")]
    Io(String, std::io::Error),
    /// The file is not a profile.
    #[error("profile {0}: {1}")]
    Parse(String, String),
}

impl Profile {
    /// Names of the profiles in the program.
    pub fn built_in() -> impl Iterator<Item = &'static str> {
        BUILT_IN.iter().map(|(name, _)| *name)
    }

    /// TOML of a built-in profile, to be changed and loaded by path.
    pub fn built_in_text(name: &str) -> Result<&'static str, ProfileError> {
        let found = BUILT_IN.iter().find(|(n, _)| *n == name).map(|(_, text)| *text);
        found.ok_or_else(|| ProfileError::Unknown(name.into(), Self::built_in().collect::<Vec<_>>().join(", ")))
    }

    /// Loads a built-in profile by name, or a TOML file by path.
    pub fn load(name: &str) -> Result<Self, ProfileError> {
        if let Some((_, text)) = BUILT_IN.iter().find(|(n, _)| *n == name) {
            return Self::parse(name, text);
        }
        if !name.ends_with(".toml") {
            return Err(ProfileError::Unknown(name.into(), Self::built_in().collect::<Vec<_>>().join(", ")));
        }
        let text = std::fs::read_to_string(Path::new(name)).map_err(|e| ProfileError::Io(name.into(), e))?;
        Self::parse(name, &text)
    }

    /// Reads a profile from TOML; `name` is for the error message.
    pub fn parse(name: &str, text: &str) -> Result<Self, ProfileError> {
        let fail = |reason: String| ProfileError::Parse(name.into(), reason);
        let own: toml::Table = toml::from_str(text).map_err(|e| fail(e.to_string()))?;
        let mut whole: toml::Table = toml::from_str(COMMON).map_err(|e| fail(format!("common figures: {e}")))?;
        overlay(&mut whole, own);
        sane("", &toml::Value::Table(whole.clone())).map_err(fail)?;
        let profile: Self = whole.try_into().map_err(|e: toml::de::Error| fail(e.to_string()))?;
        profile.check().map_err(fail)?;
        Ok(profile)
    }

    fn check(&self) -> Result<(), String> {
        let must = |ok: bool, what: &str| if ok { Ok(()) } else { Err(what.to_string()) };
        let (link, flash) = (&self.link, &self.flash);
        for (name, value, most) in [
            ("channels", *flash.channels, 256),
            ("dies_per_channel", *flash.dies_per_channel, 256),
            ("planes", *flash.planes, 64),
            ("page_kib", *flash.page_kib, 1 << 10),
            ("stripe_kib", *flash.stripe_kib, 1 << 16),
            ("superblock_mib", *flash.superblock_mib, 1 << 16),
            ("raw_gib", *flash.raw_gib, 1 << 18),
        ] {
            must((1..=most).contains(&value), &format!("flash.{name} must be 1 to {most}"))?;
        }
        must(
            (1..=1 << 39).contains(&*self.namespace.lbas_512),
            "namespace.lbas_512 must be 1 to 549755813888 (256 TiB)",
        )?;
        must((1..=32).contains(&self.power_state.len()), "a drive has 1 to 32 power states")?;
        must(self.power_state[0].operational, "power state 0 must be operational")?;
        must([128, 256, 512].contains(&*link.max_payload), "link.max_payload must be 128, 256 or 512")?;
        must([128, 256, 512, 1024, 2048, 4096].contains(&*link.max_read_request), "link.max_read_request is not one")?;
        must([64, 128].contains(&*link.read_completion_boundary), "link.read_completion_boundary must be 64 or 128")?;
        must((8..=1024).contains(&*link.tags), "link.tags must be 8 to 1024")?;
        must(*flash.page_kib % 4 == 0 && *flash.page_kib > 0, "flash.page_kib must be a multiple of 4")?;
        let row = *flash.stripe_kib * *flash.channels * *flash.dies_per_channel;
        must(
            *flash.stripe_kib % (*flash.planes * *flash.page_kib) == 0,
            "flash.stripe_kib must be whole multi-plane pages",
        )?;
        must(
            *flash.superblock_mib > 0 && *flash.superblock_mib * 1024 >= row,
            "flash.superblock_mib is less than a row of stripes",
        )?;
        must(flash.superblock_mib.is_power_of_two(), "flash.superblock_mib must be a power of two")?;
        must(
            flash.stripe_kib.is_power_of_two()
                && flash.channels.is_power_of_two()
                && flash.dies_per_channel.is_power_of_two()
                || *flash.in_place,
            "flash.stripe_kib, channels and dies_per_channel must be powers of two",
        )?;
        must((1..=4).contains(&*flash.bits_per_cell), "flash.bits_per_cell must be 1 to 4")?;
        must(
            ["direct", "drain", "fold"].contains(&flash.past_cache.as_str()),
            "flash.past_cache must be direct, drain or fold",
        )?;
        must((0.0..=1.0).contains(&*self.controller.spread), "controller.spread must be 0 to 1")?;
        must((0.0..=1.0).contains(&*self.controller.wake_spread), "controller.wake_spread must be 0 to 1")?;
        must(
            *flash.drain_share >= 0.0 && *flash.gc_cycle_share >= 0.0,
            "flash.drain_share and gc_cycle_share are shares",
        )?;
        must(
            Geometry::of(self).fits(self),
            "flash.raw_gib must hold the namespace, the smallest SLC cache and 8 superblocks",
        )?;
        must((0.0..=1.0).contains(&*flash.test_data_slc_share), "flash.test_data_slc_share must be 0 to 1")?;
        must((0.0..0.9).contains(&*flash.read_spread), "flash.read_spread must be 0 to 0.9")?;
        must((1..=12).contains(&*self.limits.mdts), "limits.mdts must be 1 to 12")?;
        must((1..=64).contains(&*self.limits.io_queues), "limits.io_queues must be 1 to 64")?;
        must((2..=65536).contains(&*self.limits.max_queue_entries), "limits.max_queue_entries must be 2 to 65536")?;
        must((1..=64).contains(&*self.limits.fetch_batch), "limits.fetch_batch must be 1 to 64")?;
        must(*self.controller.dma_reads >= 1, "controller.dma_reads must be at least 1")?;
        let list_read = *self.controller.list_read_bytes;
        must(
            list_read.is_power_of_two() && (8..=4096).contains(&list_read),
            "controller.list_read_bytes must be a power of two from 8 to 4096",
        )?;
        let lent_reads = if *self.offer.hmb_preferred_mib > 0 { LENT_READS as u64 } else { 0 };
        let wide_enough = u64::from(*link.tags) >= (*self.controller.dma_reads + lent_reads) * 4096 / 128 + 8;
        must(wide_enough, "link.tags is too small for controller.dma_reads and reads of the host memory buffer")?;
        own::check(&self.offer, self.own_meter.as_ref(), self.own_monitor.as_ref())?;
        self.offer.check(*self.namespace.lbas_512)
    }
}

/// Refuses figures that no drive has, so that computed values cannot overflow. The error names the figure.
fn sane(name: &str, value: &toml::Value) -> Result<(), String> {
    const MOST: f64 = 1e15;
    let out = |figure: &dyn std::fmt::Display| Err(format!("{name} = {figure} is no figure of a drive: at most 1e15"));
    match value {
        toml::Value::Integer(number) if number.unsigned_abs() as f64 > MOST => out(number),
        toml::Value::Float(number) if !number.is_finite() || number.abs() > MOST => out(number),
        toml::Value::Table(table) => table.iter().try_for_each(|(key, value)| match (name, key.as_str()) {
            ("", key) => sane(key, value),
            (_, "value") => sane(name, value),
            (_, key) => sane(&format!("{name}.{key}"), value),
        }),
        toml::Value::Array(items) => items.iter().try_for_each(|item| sane(name, item)),
        _ => Ok(()),
    }
}

/// Lays the tables of `own` over the tables of `common`; a figure (a table with a `source`) is replaced as a whole.
fn overlay(common: &mut toml::Table, own: toml::Table) {
    for (key, value) in own {
        match (common.get_mut(&key), value) {
            (Some(toml::Value::Table(old)), toml::Value::Table(new)) if !new.contains_key("source") => {
                overlay(old, new)
            }
            (_, value) => drop(common.insert(key, value)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each line of [`Profile::check`]: a figure that no drive has is refused by its name, and its neighbours that drives have are not.
    #[test]
    fn a_figure_that_no_drive_has_is_refused_and_the_others_are_not() {
        let with = |table: &str, key: &str, value: &str| {
            let mut own: toml::Table = toml::from_str(BUILT_IN[0].1).unwrap();
            let value: toml::Value = toml::from_str::<toml::Table>(&format!("v = {value}")).unwrap()["v"].clone();
            let fact = toml::Table::from_iter([("value".into(), value), ("source".into(), "assumed".into())]);
            own[table].as_table_mut().unwrap().insert(key.into(), toml::Value::Table(fact));
            Profile::parse("x", &toml::to_string(&own).unwrap()).map(drop).map_err(|e| e.to_string())
        };
        for (table, key, bad, good) in [
            ("flash", "channels", "0, 3, 6, 257", "1, 2, 4, 8"),
            ("flash", "dies_per_channel", "0, 3, 5, 257", "1, 2, 4"),
            ("flash", "planes", "0, 65", "1, 2, 4"),
            ("flash", "page_kib", "0, 3, 6, 1025", "4, 8, 16"),
            ("flash", "stripe_kib", "0, 96, 192, 65537", "64, 128, 256, 512"),
            ("flash", "superblock_mib", "0, 1, 100, 65537", "128, 256, 512"),
            ("flash", "raw_gib", "0, 950, 262145", "1024, 1100"),
            ("flash", "bits_per_cell", "0, 5", "1, 2, 3, 4"),
            ("flash", "past_cache", "'none'", "'direct', 'drain', 'fold'"),
            ("flash", "drain_share", "-0.1", "0.0, 1.0"),
            ("flash", "gc_cycle_share", "-0.1", "0.0, 2.0"),
            ("flash", "test_data_slc_share", "-0.1, 1.1", "0.0, 0.5, 1.0"),
            ("flash", "read_spread", "-0.1, 0.9", "0.0, 0.89"),
            ("controller", "spread", "-0.1, 1.1", "0.0, 1.0"),
            ("controller", "wake_spread", "-0.1, 1.1", "0.0, 1.0"),
            ("controller", "dma_reads", "0, 8, 100", "1, 4, 7"),
            ("controller", "list_read_bytes", "0, 4, 24, 8192", "8, 64, 4096"),
            ("namespace", "lbas_512", "0, 549755813889", "1, 2000409264"),
            ("link", "max_payload", "64, 384, 1024", "128, 256, 512"),
            ("link", "max_read_request", "64, 384, 8192", "128, 512, 4096"),
            ("link", "read_completion_boundary", "32, 96, 256", "64, 128"),
            ("link", "tags", "7, 100, 1025", "136, 256, 1024"),
            ("limits", "mdts", "0, 13", "1, 5, 12"),
            ("limits", "io_queues", "0, 65", "1, 64"),
            ("limits", "max_queue_entries", "1, 65537", "2, 65536"),
            ("limits", "fetch_batch", "0, 65", "1, 64"),
        ] {
            for value in bad.split(", ") {
                let refused = with(table, key, value).expect_err(&format!("{key} = {value}"));
                assert!(refused.contains(key.trim_end_matches("_512")), "{key} = {value}: {refused}");
            }
            for value in good.split(", ") {
                assert_eq!(with(table, key, value), Ok(()), "{key} = {value}");
            }
        }
    }

    #[test]
    fn built_in_profiles_load_and_every_source_is_classed() {
        for (name, text) in BUILT_IN.iter().chain(&[("common", COMMON)]) {
            if *name != "common" {
                assert_eq!(&Profile::parse(name, text).unwrap().name, name);
            }
            for line in text.lines().filter(|l| l.contains("source =")) {
                let source = line.split("source = \"").nth(1).unwrap();
                assert!(
                    ["declared: ", "measured: ", "standard: ", "assumed"].iter().any(|c| source.starts_with(c)),
                    "{line}"
                );
            }
        }
    }

    #[test]
    fn a_misspelt_field_is_named() {
        let text = BUILT_IN[0].1.replace("mdts =", "mtds =");
        assert!(Profile::parse("x", &text).unwrap_err().to_string().contains("mtds"));
    }
}
