//! How a host finds running rigs: one file per rig, removed when the rig ends. After a crash the file stays, and its
//! `pid` gives it away.
//!
//! Hosts trust these files, so the folder is made for this user alone, and one that others can write is refused.

use crate::rig::ORIGIN_TICK;
use nix::unistd::geteuid;
use std::fs;
use std::io;
use std::os::unix::fs::{symlink, DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

/// Facts about a running rig that a host needs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ports {
    /// Serial number of the rig.
    pub serial: String,
    /// Path of the data port (or of the file in its place).
    pub data: String,
    /// Path of the control port.
    pub control: String,
    /// Socket on which the process reports its status ([`crate::status`]).
    pub status: String,
}

impl Ports {
    /// One line of JSON, including the process id.
    pub fn to_json(&self) -> String {
        serde_json::json!({
            "serial": self.serial,
            "data": self.data,
            "control": self.control,
            "status": self.status,
            "origin_tick": ORIGIN_TICK,
            "pid": std::process::id(),
        })
        .to_string()
    }
}

/// Folder of the rigs' files: `$WATTBELL_RUNTIME`, else `$XDG_RUNTIME_DIR/wattbell`, else `/tmp/wattbell-UID`; in it, `rigs`.
pub fn rigs_dir() -> PathBuf {
    let given = |name: &str| std::env::var_os(name).filter(|v| !v.is_empty()).map(PathBuf::from);
    let base = given("WATTBELL_RUNTIME")
        .or_else(|| given("XDG_RUNTIME_DIR").map(|dir| dir.join("wattbell")))
        .unwrap_or_else(|| format!("/tmp/wattbell-{}", geteuid()).into());
    base.join("rigs")
}

/// An error if somebody other than this user (or root) has control over a folder.
fn ours_alone(dir: &Path) -> io::Result<()> {
    let about = fs::metadata(dir)?;
    let refuse = |what: String| {
        let text = format!("{} {what}; set WATTBELL_RUNTIME to a folder of your own", dir.display());
        Err(io::Error::new(io::ErrorKind::PermissionDenied, text))
    };
    if about.uid() != 0 && about.uid() != geteuid().as_raw() {
        return refuse(format!("belongs to user {}", about.uid()));
    }
    if about.mode() & 0o022 != 0 {
        return refuse("can be written by others".into());
    }
    Ok(())
}

/// A rig's entries in the file system, removed when this is dropped.
#[derive(Debug)]
pub struct Registration {
    files: Vec<(PathBuf, Contents)>,
}

#[derive(Debug, PartialEq)]
enum Contents {
    File(String),
    Link(PathBuf),
}

impl Registration {
    /// Writes `<dir>/<serial>.json`, and links `data` and `control` in `link_dir` if one is given.
    pub fn new(dir: &Path, ports: &Ports, link_dir: Option<&Path>) -> io::Result<Self> {
        let mut this = Self { files: Vec::new() };
        fs::DirBuilder::new().recursive(true).mode(0o700).create(dir)?;
        dir.parent().map_or(Ok(()), ours_alone).and_then(|()| ours_alone(dir))?;
        let path = dir.join(format!("{}.json", ports.serial));
        let text = ports.to_json() + "\n";
        // Complete at any time: a host may be reading it right now.
        let fresh = dir.join(format!(".{}.{}", ports.serial, std::process::id()));
        fs::write(&fresh, &text)?;
        fs::set_permissions(&fresh, fs::Permissions::from_mode(0o600))?;
        fs::rename(&fresh, &path)?;
        this.files.push((path, Contents::File(text)));
        if let Some(dir) = link_dir {
            fs::create_dir_all(dir)?;
            for (name, target) in [("data", &ports.data), ("control", &ports.control)] {
                let link = dir.join(name);
                if link.is_symlink() {
                    fs::remove_file(&link)?;
                }
                let target = std::path::absolute(target)?;
                symlink(&target, &link)?;
                this.files.push((link, Contents::Link(target)));
            }
        }
        Ok(this)
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        for (path, contents) in &self.files {
            // Another rig may have taken the name since. A link that is not ours stays.
            let found =
                fs::read_link(path).map(Contents::Link).or_else(|_| fs::read_to_string(path).map(Contents::File));
            if found.is_ok_and(|found| found == *contents) {
                let _ = fs::remove_file(path);
            }
        }
    }
}
