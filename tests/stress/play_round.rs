//! Plays rounds: fence, operations, waits.

use typed_nccl::{Error, Rank as Id, Result, Signals, Sum};

use super::calm::calm;
use super::draw::windows;
use super::rank::{Rank, queue};
use super::record::{Here, alone, grouped};
use super::step::{Fence, Part, Round, Waits};
use super::views::Views;

impl Rank {
    pub(crate) fn round(&mut self, round: &Round) -> Result<()> {
        if let Some(fence) = round.fence {
            self.fence(round, fence)?;
        }
        if round.refused_by.is_some() {
            // So that this round's errors are distinguished from earlier errors and signals.
            self.settle(round)?;
        }
        match self.parts(round) {
            Err(Error::OutsideWindow(_)) if round.refused_by == Some(self.index) => {}
            outcome => outcome?,
        }
        if round.waits != Waits::InGroup {
            self.waits(round)?;
        }
        let Some(by) = round.refused_by else { return Ok(()) };
        let told = self.told(round, by)?;
        if self.strict {
            assert_eq!(told, by == self.index || round.tells(self.index), "{round:?}");
        }
        Ok(())
    }

    fn parts(&mut self, round: &Round) -> Result<()> {
        let due = self.due(round);
        let here = Here { rank: self.index, shape: self.shape, slots: &self.slots[round.comm] };
        let mut views = Views::new(&mut self.stores, &round.parts);
        let comm = self.comms[round.comm].as_mut().expect("alive");
        if !round.grouped {
            let on = comm.on(queue(comm, &self.streams, round.stream));
            return round.parts.iter().try_for_each(|part| alone(&on, part, &mut views, here));
        }
        match round.stream {
            0 => comm.group(|g| grouped(g, round, &mut views, here, &due)),
            stream => {
                let stream = &self.streams[stream];
                comm.group_on(stream, |g| grouped(g, round, &mut views, here, &due))
            }
        }
    }

    /// The signals that a round sends to this rank, by peer and slot.
    fn arrivals(&self, round: &Round) -> Vec<(usize, (u32, u32))> {
        let signal = |part: &Part| match *part {
            Part::Put(put) if put.target == self.index => Some((put.writer, put.slot)),
            Part::Signal { from, to, slot } if to == self.index => Some((from, slot)),
            _ => None,
        };
        let own = round.refused_by.filter(|&by| by == self.index).map(|by| (by, (0, 0)));
        round.parts.iter().filter_map(signal).chain(own).collect()
    }

    fn due(&self, round: &Round) -> Signals {
        let mut due = Signals::new();
        for (peer, slot) in self.arrivals(round) {
            due.expect_in(Id::from_index(peer), self.slot(round.comm, slot), 1);
        }
        due
    }

    fn waits(&mut self, round: &Round) -> Result<()> {
        let comm = self.comms[round.comm].as_ref().expect("alive");
        let on = comm.on(queue(comm, &self.streams, round.waiting));
        if round.waits == Waits::Together {
            return on.wait_signals(&self.due(round));
        }
        for (peer, slot) in self.arrivals(round) {
            if slot == (0, 0) {
                on.wait_signal(peer)?;
            } else {
                let mut one = Signals::new();
                one.expect_in(peer, self.slot(round.comm, slot), 1);
                on.wait_signals(&one)?;
            }
        }
        Ok(())
    }

    /// No rank still uses its windows when another continues.
    fn fence(&mut self, round: &Round, fence: Fence) -> Result<()> {
        let comm = self.comms[round.comm].as_ref().expect("alive");
        let stream = queue(comm, &self.streams, round.stream);
        // Whatever stream used a window: this one continues after it.
        for store in windows(round.comm) {
            stream.launch(self.stores[store].all_mut(), |_, _| ())?;
        }
        let on = comm.on(stream);
        match fence {
            Fence::Barrier => {
                calm(|| comm.sync(stream))?;
                comm.barrier()
            }
            Fence::Signals(slot) => {
                let mut all = Signals::new();
                for peer in 0..self.shape.ranks {
                    on.signal_slot(peer, self.slot(round.comm, slot))?;
                    all.expect_in(peer, self.slot(round.comm, slot), 1);
                }
                on.wait_signals(&all)
            }
            Fence::Collective => on.all_reduce_in_place(&mut self.tick, Sum),
        }
    }

    fn settle(&self, round: &Round) -> Result<()> {
        let comm = self.comms[round.comm].as_ref().expect("alive");
        for stream in [round.stream, round.waiting] {
            calm(|| comm.sync(queue(comm, &self.streams, stream)))?;
        }
        comm.barrier()
    }

    /// Whether this rank's waits report that `by` refused its part.
    fn told(&self, round: &Round, by: usize) -> Result<bool> {
        let comm = self.comms[round.comm].as_ref().expect("alive");
        let mut told = false;
        for last in [false, true] {
            for stream in [round.stream, round.waiting] {
                loop {
                    match calm(|| comm.sync(queue(comm, &self.streams, stream))) {
                        Ok(()) => break,
                        Err(Error::Refused(refused)) if refused.by.index() == by => told = true,
                        Err(error) => return Err(error),
                    }
                }
            }
            // Collectives without elements wait for no rank: they are refused when all have called.
            if !last {
                comm.barrier()?;
            }
        }
        Ok(told)
    }
}
