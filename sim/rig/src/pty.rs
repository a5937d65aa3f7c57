//! Pseudo-terminals in raw mode, and the threads that serve them.
//!
//! The rig keeps the slave end of each terminal open. Clients may then come and go without an error at the master, and unread data waits
//! for the next client.

use crossbeam_channel::{Receiver, Sender};
use nix::fcntl::OFlag;
use nix::poll::{poll, PollFd, PollFlags, PollTimeout};
use nix::pty::{grantpt, posix_openpt, ptsname_r, unlockpt, PtyMaster};
use nix::sys::termios::{cfmakeraw, tcgetattr, tcsetattr, SetArg};
use std::fs::{File, OpenOptions, Permissions};
use std::io::{self, Read, Write};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};

mod ioctl {
    #![allow(missing_docs)] // the macro makes a public function
    nix::ioctl_read_bad!(fionread, nix::libc::FIONREAD, i32);
}

/// A pseudo-terminal.
pub struct Pty {
    master: PtyMaster,
    slave: File,
    path: String,
}

impl Pty {
    /// Opens a terminal in raw mode, with a blocking master end.
    pub fn open() -> io::Result<Self> {
        Self::open_with(OFlag::empty())
    }

    /// Opens a terminal in raw mode, for [`Self::write_discarding_input`].
    pub fn open_for_writing() -> io::Result<Self> {
        Self::open_with(OFlag::O_NONBLOCK)
    }

    fn open_with(flags: OFlag) -> io::Result<Self> {
        let master = posix_openpt(OFlag::O_RDWR | OFlag::O_NOCTTY | OFlag::O_CLOEXEC | flags)?;
        grantpt(&master)?;
        unlockpt(&master)?;
        let path = ptsname_r(&master)?;
        let slave = OpenOptions::new().read(true).write(true).custom_flags(nix::libc::O_NOCTTY).open(&path)?;
        // Where devpts gives terminals to a group (`mode=620,gid=tty`), that group could write SCPI to the rig.
        slave.set_permissions(Permissions::from_mode(0o600))?;
        let mut settings = tcgetattr(&slave)?;
        cfmakeraw(&mut settings);
        tcsetattr(&slave, SetArg::TCSANOW, &settings)?;
        Ok(Self { master, slave, path })
    }

    /// Path of the slave, which a client opens.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Returns the number of bytes that no client has read yet, as far as the terminal has passed them on. Written bytes show up a little
    /// later.
    pub fn unread(&self) -> io::Result<usize> {
        let mut n = 0;
        // SAFETY: FIONREAD writes one int.
        unsafe { ioctl::fionread(self.slave.as_raw_fd(), &mut n) }?;
        Ok(n.max(0) as usize)
    }

    fn wait(&self, events: PollFlags) -> io::Result<PollFlags> {
        loop {
            let mut fds = [PollFd::new(self.master.as_fd(), events)];
            match poll(&mut fds, PollTimeout::NONE) {
                Ok(_) => return Ok(fds[0].revents().unwrap_or(PollFlags::empty())),
                Err(nix::errno::Errno::EINTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Writes all of `bytes`, waiting as long as it takes for a client to make room. Input from a client on an output-only port is
    /// discarded, so that it cannot block.
    pub fn write_discarding_input(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            let ready = self.wait(PollFlags::POLLOUT | PollFlags::POLLIN)?;
            if ready.contains(PollFlags::POLLIN) {
                let _ = or_none((&self.master).read(&mut [0; 1024]))?;
            }
            if ready.contains(PollFlags::POLLOUT) {
                bytes = &bytes[or_none((&self.master).write(bytes))?..];
            }
        }
        Ok(())
    }
}

/// Result of a call on a non-blocking file; 0 if it would have blocked.
fn or_none(done: io::Result<usize>) -> io::Result<usize> {
    match done {
        Err(e) if matches!(e.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted) => Ok(0),
        other => other,
    }
}

/// Passes what arrives on the control port to `said`, until the other side is gone.
pub fn listen(pty: &Pty, said: &Sender<Vec<u8>>) -> io::Result<()> {
    let mut buffer = [0; 4096];
    loop {
        let n = (&pty.master).read(&mut buffer)?;
        if said.send(buffer[..n].to_vec()).is_err() {
            return Ok(());
        }
    }
}

/// Writes the output of the control port; blocks while nobody reads.
pub fn speak(pty: &Pty, words: &Receiver<Vec<u8>>) -> io::Result<()> {
    words.iter().try_for_each(|bytes| (&pty.master).write_all(&bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_come_and_go() {
        let pty = Pty::open_for_writing().unwrap();
        for word in ["one", "two"] {
            pty.write_discarding_input(word.as_bytes()).unwrap();
            while pty.unread().unwrap() < 3 {
                std::thread::yield_now();
            }
            let mut client = OpenOptions::new().read(true).write(true).open(pty.path()).unwrap();
            let mut seen = [0; 3];
            client.read_exact(&mut seen).unwrap();
            assert_eq!(seen, word.as_bytes());
            client.write_all(b"ignored").unwrap();
        }
        assert_eq!(pty.unread().unwrap(), 0);
    }

    #[test]
    fn all_256_bytes_pass() {
        let pty = Pty::open_for_writing().unwrap();
        let all: Vec<u8> = (0..=255).collect();
        pty.write_discarding_input(&all).unwrap();
        let mut client = OpenOptions::new().read(true).open(pty.path()).unwrap();
        let mut seen = [0; 256];
        client.read_exact(&mut seen).unwrap();
        assert_eq!(&seen[..], &all[..]);
    }
}
