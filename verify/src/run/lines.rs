//! The lines of events that follow each other: a block's threads, a proxy's queue, a rank's user.

use typed_nccl_match::Clock;

use super::memory::{Use, Who};
use crate::program::{By, Program};

/// What came before: what can be seen, and what was only done. A relaxed signal tells that a block
/// has come so far, so its reads are over; it does not tell that what it wrote has arrived.
#[derive(Clone, Default, Debug)]
pub(crate) struct Past {
    pub(crate) seen: Clock,
    pub(crate) done: Clock,
}

impl Past {
    pub(crate) fn join(&mut self, other: &Self) {
        self.seen.join(&other.seen);
        self.done.join(&other.done);
    }

    /// The same, of whoever only tells how far it has come. `began` is what it began with.
    pub(crate) fn join_relaxed(&mut self, other: &Self, began: &Self) {
        self.seen.join(&began.seen);
        self.done.join(&other.done);
    }
}

/// The clocks of all lines.
///
/// A block has two lines where its threads are apart: the thread that signals and waits, and the
/// others. What both do is a use by both, and a `nop` joins them.
pub(crate) struct Lines {
    threads: u32,
    blocks: u32,
    proxies: u32,
    pub(crate) pasts: Vec<Past>,
    events: Vec<u64>,
}

impl Lines {
    pub(crate) fn new(program: &Program) -> Self {
        let threads = if program.threads_apart { 2 } else { 1 };
        let (blocks, proxies) = (program.blocks.len() as u32, program.proxies.len() as u32);
        let count = (blocks * threads + proxies + program.ranks()) as usize;
        let pasts = vec![Past::default(); count];
        Self { threads, blocks, proxies, pasts, events: vec![0; count] }
    }

    /// A block's thread that signals and waits.
    pub(crate) fn leader(&self, block: u32) -> u32 {
        block * self.threads
    }

    pub(crate) fn others(&self, block: u32) -> u32 {
        block * self.threads + self.threads - 1
    }

    pub(crate) fn proxy(&self, proxy: u32) -> u32 {
        self.blocks * self.threads + proxy
    }

    pub(crate) fn user(&self, rank: u32) -> u32 {
        self.blocks * self.threads + self.proxies + rank
    }

    pub(crate) fn past(&self, line: u32) -> &Past {
        &self.pasts[line as usize]
    }

    pub(crate) fn learn(&mut self, line: u32, past: &Past) {
        self.pasts[line as usize].join(past);
    }

    pub(crate) fn learn_relaxed(&mut self, line: u32, past: &Past, began: &Past) {
        self.pasts[line as usize].join_relaxed(past, began);
    }

    /// One line learns what another knows.
    pub(crate) fn join(&mut self, line: u32, from: u32) {
        if line != from {
            let known = self.pasts[from as usize].clone();
            self.pasts[line as usize].join(&known);
        }
    }

    /// A block's threads wait for each other.
    pub(crate) fn sync(&mut self, block: u32) {
        let (leader, others) = (self.leader(block), self.others(block));
        self.join(leader, others);
        self.join(others, leader);
    }

    /// The next event of a line.
    pub(crate) fn tick(&mut self, line: u32) -> (u32, u64) {
        let event = &mut self.events[line as usize];
        *event += 1;
        let past = &mut self.pasts[line as usize];
        past.seen.learn(line as usize, *event);
        past.done.learn(line as usize, *event);
        (line, *event)
    }

    /// A use of memory by a step's block or proxy.
    pub(crate) fn used(&mut self, (block, step): (u32, u32), by: By, run: u32) -> Use {
        let events = match by {
            By::Proxy(proxy) => {
                let event = self.tick(self.proxy(proxy));
                [event, event]
            }
            By::Block if self.threads == 1 => {
                let event = self.tick(self.leader(block));
                [event, event]
            }
            By::Block => [self.tick(self.leader(block)), self.tick(self.others(block))],
        };
        Use { who: Who::Step { block, step }, run, writes: false, events }
    }

    pub(crate) fn used_by_user(&mut self, rank: u32, run: u32) -> Use {
        let event = self.tick(self.user(rank));
        Use { who: Who::User(rank), run, writes: false, events: [event, event] }
    }
}
