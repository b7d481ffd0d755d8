//! Streams as queues, and events as recordings in them.

use std::collections::VecDeque;

use crate::memory;
use crate::state::State;

/// A stream and what is not done yet.
pub(crate) struct Stream {
    pub(crate) device: usize,
    queue: VecDeque<Work>,
}

/// What is enqueued.
pub(crate) enum Work {
    /// Never over by itself.
    Hold,
    /// A recording is reached.
    Record(u64),
    /// Nothing later before this recording is reached.
    Wait(u64),
    Set {
        to: u64,
        value: u8,
        bytes: usize,
    },
    Copy {
        to: u64,
        from: u64,
        bytes: usize,
    },
}

pub(crate) struct Event {
    pub(crate) device: usize,
    /// Its latest recording.
    pub(crate) last: Option<u64>,
}

impl Stream {
    pub(crate) fn new(device: usize) -> Self {
        Self { device, queue: VecDeque::new() }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty()
    }

    /// Lets go of it.
    pub(crate) fn release(&mut self) {
        self.queue.retain(|work| !matches!(work, Work::Hold));
    }
}

impl State {
    /// Enqueues work on a stream, which is there, and does what can be done.
    pub(crate) fn enqueue(&mut self, stream: u64, work: Work) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.queue.push_back(work);
        }
        self.advance();
    }

    /// Does everything that can be done.
    pub(crate) fn advance(&mut self) {
        while let Some(work) = self.next() {
            self.carry_out(work);
        }
    }

    /// Takes the next piece of work that waits for nothing.
    fn next(&mut self) -> Option<Work> {
        let pending = &self.pending;
        let ready = |work: &mut Work| match work {
            Work::Hold => false,
            Work::Wait(recording) => !pending.contains(recording),
            Work::Record(_) | Work::Set { .. } | Work::Copy { .. } => true,
        };
        self.streams.values_mut().find_map(|stream| stream.queue.pop_front_if(ready))
    }

    fn carry_out(&mut self, work: Work) {
        match work {
            Work::Hold | Work::Wait(_) => {}
            Work::Record(recording) => {
                self.pending.remove(&recording);
            }
            Work::Set { to, value, bytes } => {
                // SAFETY: device memory is never given back, and the owner of other memory keeps the
                // driver's contract: it is there, and nobody else's, until its stream is past.
                unsafe { memory::set(to, value, bytes) };
            }
            Work::Copy { to, from, bytes } => {
                // SAFETY: as above, for both sides.
                unsafe { memory::copy(to, from, bytes) };
            }
        }
    }
}
