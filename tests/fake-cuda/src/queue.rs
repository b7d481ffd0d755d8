//! Streams as queues, and events as recordings in them.

use std::collections::VecDeque;
use std::ffi::c_void;
use std::sync::{Arc, Condvar};
use std::time::Instant;

use crate::ptx::Kernel;
use crate::state::State;

/// A stream and its pending work.
pub(crate) struct Stream {
    pub(crate) device: usize,
    /// Whether nothing more may be enqueued.
    pub(crate) destroyed: bool,
    queue: VecDeque<Work>,
    /// Whether its thread is working, if it has one.
    busy: bool,
    /// What its thread sleeps on.
    pub(crate) wake: Arc<Condvar>,
    /// The capture that it takes part in, or 0.
    pub(crate) capture: u64,
}

/// Enqueued work.
#[derive(Clone)]
pub(crate) enum Work {
    /// Never over by itself.
    Hold,
    /// A recording is reached.
    Record(u64),
    /// Blocks later work until this recording is reached.
    Wait(u64),
    /// This many values of 1, 2 or 4 bytes, at this distance.
    Set {
        to: u64,
        value: u32,
        width: usize,
        pitch: usize,
        count: usize,
    },
    Copy {
        to: u64,
        from: u64,
        bytes: usize,
    },
    /// Device memory is freed.
    Free(u64),
    Launch {
        kernel: Arc<Kernel>,
        /// Blocks, and threads of each.
        grid: (u32, u32),
        arguments: Vec<u64>,
    },
    /// A function of the host's.
    Call {
        function: HostFunction,
        data: u64,
    },
    /// In a graph: calls a host function at each launch, with the data that the other one returns.
    Again {
        prepare: Prepare,
        function: HostFunction,
        data: u64,
    },
}

/// Returns the data of one more call. The launching thread calls it under every lock.
pub(crate) type Prepare = unsafe extern "C" fn(*mut c_void) -> *mut c_void;

/// `CUhostFn`
pub(crate) type HostFunction = unsafe extern "C" fn(*mut c_void);

#[derive(Clone)]
pub(crate) struct Event {
    pub(crate) device: usize,
    /// Whether it records the time.
    pub(crate) timed: bool,
    /// Its latest recording, on each of its streams.
    pub(crate) last: Vec<u64>,
    /// The capture that the latest recording is part of, or 0.
    pub(crate) capture: u64,
}

impl Stream {
    pub(crate) fn new(device: usize) -> Self {
        let (queue, wake) = (VecDeque::new(), Arc::default());
        Self { device, destroyed: false, queue, busy: false, wake, capture: 0 }
    }

    pub(crate) fn is_idle(&self) -> bool {
        self.queue.is_empty() && !self.busy
    }

    /// Releases it.
    pub(crate) fn release(&mut self) {
        self.queue.retain(|work| !matches!(work, Work::Hold));
    }
}

impl State {
    /// Enqueues work on an existing stream, and does what can be done.
    pub(crate) fn enqueue(&mut self, stream: u64, work: Work) {
        let Some(work) = self.captured(stream, work) else { return };
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.queue.push_back(work);
            stream.wake.notify_one();
        }
        if !self.takes_time {
            self.advance();
        }
    }

    /// Does everything that can be done, or wakes the streams' threads for it.
    pub(crate) fn advance(&mut self) {
        if self.takes_time {
            self.streams.values().for_each(|stream| stream.wake.notify_one());
            return;
        }
        while let Some(stream) = self.streams.keys().find(|stream| self.is_ready(**stream)) {
            let stream = *stream;
            if let Some(work) = self.begin(stream) {
                work.carry_out();
                self.over(stream, &work);
            }
        }
    }

    /// Whether all work on a device is over.
    pub(crate) fn is_idle(&self, device: usize) -> bool {
        self.streams.values().all(|stream| stream.device != device || stream.is_idle())
    }

    /// Whether the next piece of work of a stream waits for nothing.
    fn is_ready(&self, stream: u64) -> bool {
        let next = self.streams.get(&stream).and_then(|stream| stream.queue.front());
        next.is_some_and(|work| match work {
            Work::Hold => false,
            Work::Wait(recording) => !self.pending.contains(recording),
            Work::Record(_)
            | Work::Set { .. }
            | Work::Copy { .. }
            | Work::Free(_)
            | Work::Launch { .. }
            | Work::Call { .. }
            | Work::Again { .. } => true,
        })
    }

    /// Takes the next piece of work of a stream, if it waits for nothing.
    pub(crate) fn begin(&mut self, stream: u64) -> Option<Work> {
        if !self.is_ready(stream) {
            return None;
        }
        let stream = self.streams.get_mut(&stream)?;
        stream.busy = true;
        stream.queue.pop_front()
    }

    /// Records that it was done.
    pub(crate) fn over(&mut self, stream: u64, work: &Work) {
        if let Some(stream) = self.streams.get_mut(&stream) {
            stream.busy = false;
        }
        if let Work::Free(address) = work
            && let Ok(piece) = self.live(*address)
        {
            piece.freed = true;
        }
        if let Work::Record(recording) = work {
            self.pending.remove(recording);
            if let Some(time) = self.times.get_mut(recording) {
                *time = Some(Instant::now());
            }
            let waits = |stream: &&Stream| match stream.queue.front() {
                Some(Work::Wait(awaited)) => awaited == recording,
                _ => false,
            };
            self.streams.values().filter(waits).for_each(|stream| stream.wake.notify_one());
        }
    }
}
