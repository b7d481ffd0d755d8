//! The room of a communicator: a folder with the ranks' messages, and a page that they share.
//!
//! A message is a file that a single rank looks for. It appears as a whole, and is removed by that
//! rank. The page has a bell for each rank, which is rung for new messages, and the signals.

use std::fs;
use std::io::{self, Write as _};
use std::ops::Deref;
use std::path::PathBuf;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicU32, AtomicU64};
use std::time::Duration;
use std::{process, thread};

use super::os::{self, Shared};

/// How many signals a rank has for each peer.
#[derive(Clone, Copy)]
pub(crate) struct Slots {
    pub(crate) contexts: usize,
    pub(crate) signals: usize,
}

pub(crate) struct Room {
    pub(crate) path: PathBuf,
    pub(crate) rank: usize,
    pub(crate) size: usize,
    page: Shared,
    slots: Slots,
    written: AtomicU64,
}

/// A rank's message to another.
pub(crate) enum Message {
    Read(Vec<u8>),
    /// A long one, left in place.
    Mapped(Shared),
}

/// The size from which a message is long.
const LONG: usize = 64 << 10;

impl Deref for Message {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Self::Read(bytes) => bytes,
            Self::Mapped(shared) => shared.bytes(),
        }
    }
}

/// How often a waiting rank checks without a ring.
const EVERY: Duration = Duration::from_millis(100);

/// How long an entering rank waits before it looks for the next one again, at first and at most.
const ENTERING: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(16));

impl Room {
    /// Enters, announces a text of this rank, and waits until all have entered, or until it is
    /// over; returns the ranks' texts.
    pub(crate) fn enter(
        path: PathBuf,
        (rank, size): (usize, usize),
        slots: Slots,
        says: &str,
        is_over: impl Fn() -> bool,
    ) -> io::Result<(Self, Vec<String>)> {
        fs::create_dir_all(&path)?;
        let page = path.join("page");
        if rank == 0 {
            let signals = size * size * slots.contexts * slots.signals;
            Shared::create(&page, (size + 2 * signals) * size_of::<u32>())?;
        }
        let (own, new) = (path.join(format!("rank.{rank}")), path.join(format!("new.rank.{rank}")));
        fs::write(path.join(format!("process.{rank}")), process::id().to_string())?;
        fs::write(&new, says)?;
        fs::rename(new, own)?;
        let read = |rank| fs::read_to_string(path.join(format!("rank.{rank}")));
        let (mut said, mut pause) = (Vec::with_capacity(size), ENTERING.0);
        while said.len() < size {
            match read(said.len()) {
                Ok(words) => {
                    said.push(words);
                    pause = ENTERING.0;
                }
                Err(_) if is_over() => return Err(io::Error::other("revoked meanwhile")),
                Err(_) => {
                    thread::sleep(pause);
                    pause = (pause * 2).min(ENTERING.1);
                }
            }
        }
        let page = Shared::open(&page)?;
        Ok((Self { path, rank, size, page, slots, written: AtomicU64::new(0) }, said))
    }

    /// Announces that this rank is destroyed.
    pub(crate) fn ends(&self) {
        let _ = fs::write(self.path.join(format!("ends.{}", self.rank)), "");
        (0..self.size).for_each(|rank| self.ring(rank));
    }

    /// Waits until every rank is destroyed, aborted or dead.
    pub(crate) fn all_end(&self) {
        let has_ended = |rank: usize| {
            let is_there = |what| self.path.join(format!("{what}.{rank}")).exists();
            is_there("ends") || is_there("gone") || !self.is_alive(rank)
        };
        self.wait(|| (0..self.size).all(has_ended).then_some(()));
    }

    fn is_alive(&self, rank: usize) -> bool {
        let process = fs::read_to_string(self.path.join(format!("process.{rank}")));
        let stat = process.and_then(|id| fs::read_to_string(format!("/proc/{id}/stat")));
        // One that nobody has waited for is dead, too.
        stat.is_ok_and(|stat| !stat.contains(") Z "))
    }

    /// Announces that this rank is gone; the last one clears the room.
    pub(crate) fn leave(&self) {
        // Anything that cannot be cleared is removed with the test's folder.
        let gone = |rank| self.path.join(format!("gone.{rank}"));
        let _ = fs::write(gone(self.rank), "");
        if (0..self.size).all(|rank| gone(rank).exists()) {
            let _ = fs::remove_dir_all(&self.path);
        }
    }

    pub(crate) fn others(&self) -> Vec<usize> {
        (0..self.size).filter(|rank| *rank != self.rank).collect()
    }

    fn file(&self, what: &str, from: usize, to: usize) -> PathBuf {
        self.path.join(format!("{what}.{from}-{to}"))
    }

    /// Leaves the same message for each of these ranks.
    pub(crate) fn post(&self, what: &str, to: &[usize], parts: &[&[u8]]) {
        let number = self.written.fetch_add(1, Relaxed);
        let new = self.path.join(format!("new.{}.{number}", self.rank));
        let write = |mut file: fs::File| parts.iter().try_for_each(|part| file.write_all(part));
        if fs::File::create(&new).and_then(write).is_err() {
            // The folder is gone, and so is every receiver.
            return;
        }
        for &to in to {
            let _ = fs::hard_link(&new, self.file(what, self.rank, to));
            self.ring(to);
        }
        let _ = fs::remove_file(new);
    }

    /// Takes another rank's message to this one.
    pub(crate) fn take(&self, what: &str, from: usize) -> Option<Message> {
        let path = self.file(what, from, self.rank);
        let bytes = fs::metadata(&path).ok()?.len() as usize;
        let found = match bytes {
            ..LONG => Message::Read(fs::read(&path).ok()?),
            LONG.. => Message::Mapped(Shared::open(&path).ok()?),
        };
        let _ = fs::remove_file(path);
        self.ring(from);
        Some(found)
    }

    /// Whether a rank has taken its message.
    pub(crate) fn is_taken(&self, what: &str, to: usize) -> bool {
        !self.file(what, self.rank, to).exists()
    }

    /// Rings a rank's bell.
    pub(crate) fn ring(&self, rank: usize) {
        let bell = self.page.number(rank);
        bell.fetch_add(1, AcqRel);
        os::wake(bell);
    }

    /// Polls whenever this rank's bell rings, until there is a result.
    pub(crate) fn wait<T>(&self, mut look: impl FnMut() -> Option<T>) -> T {
        let bell = self.page.number(self.rank);
        loop {
            let seen = bell.load(Acquire);
            if let Some(found) = look() {
                return found;
            }
            os::sleep_on(bell, seen, EVERY);
        }
    }

    pub(crate) fn slots(&self) -> Slots {
        self.slots
    }

    /// How often a rank has raised another's signal.
    pub(crate) fn raised(&self, from: usize, to: usize, context: usize, signal: usize) -> u32 {
        self.page.number(self.signal(from, to, context, signal)).load(Acquire)
    }

    /// Raises another rank's signal.
    pub(crate) fn raise(&self, to: usize, context: usize, signal: usize) {
        self.page.number(self.signal(self.rank, to, context, signal)).fetch_add(1, AcqRel);
        self.ring(to);
    }

    /// How many signals of graphs are raised and not awaited: by sender, receiver, context and
    /// number.
    pub(crate) fn in_graphs(
        &self,
        (from, to, context, signal): (usize, usize, usize, usize),
    ) -> &AtomicU32 {
        // They follow the others.
        let others = self.size * self.size * self.slots.contexts * self.slots.signals;
        self.page.number(others + self.signal(from, to, context, signal))
    }

    fn signal(&self, from: usize, to: usize, context: usize, signal: usize) -> usize {
        let pair = to * self.size + from;
        self.size + (pair * self.slots.contexts + context) * self.slots.signals + signal
    }
}
