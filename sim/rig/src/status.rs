//! The process's own knowledge of the rig, as JSON over a separate socket. The control port cannot serve it, because that port belongs to
//! the firmware.
//!
//! A client of the abstract Unix socket is sent one line, and the connection is closed.

use std::io::{self, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::sync::{Arc, Mutex, PoisonError};

/// The line sent at present.
#[derive(Debug, Clone, Default)]
pub struct Status(Arc<Mutex<String>>);

impl Status {
    /// Replaces the status.
    pub fn set(&self, line: String) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = line;
    }

    /// Serves it in a thread of its own; returns the socket's address, with `@` for the zero byte that makes it
    /// abstract.
    pub fn serve(&self) -> io::Result<String> {
        let name = format!("wattbell-rig.{}", std::process::id());
        let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name)?)?;
        let status = self.clone();
        std::thread::Builder::new().name("status".into()).spawn(move || {
            for mut stream in listener.incoming().flatten() {
                let line = status.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
                let _ = writeln!(stream, "{line}"); // the client may have gone
            }
        })?;
        Ok(format!("@{name}"))
    }
}
