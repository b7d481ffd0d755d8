//! Transfers: a send on one rank, a receive on another.

use super::problems::OutOfBounds;
use super::{Active, Halves, Walk};
use crate::ir::{Place, Transfer};
use crate::program::{NONE, Op, OpKind};

impl Walk<'_> {
    pub(super) fn transfer(&mut self, this: &Transfer, active: &Active, halves: Halves) {
        let (senders, to) = self.senders(this, active);
        let shift = self.shift(0, &this.peer);
        for rank in 0..self.layout.size {
            if active.is(rank) && matches!(halves, Halves::Both | Halves::Sends) {
                let sent = self.send(rank, this, shift);
                self.found(rank, sent);
            }
            for &sender in to.of(rank) {
                let sender = senders[sender as usize];
                let wanted = match halves {
                    Halves::Both => true,
                    Halves::Sends => false,
                    Halves::FromLower => sender < rank,
                    Halves::FromHigher => sender > rank,
                };
                if wanted {
                    let waits = halves == Halves::Both;
                    let received = self.receive((sender, rank), this, shift, waits);
                    self.found(sender, received);
                }
            }
        }
    }

    /// The receiver's bounds are checked with the receiver.
    fn send(&mut self, rank: usize, this: &Transfer, shift: u32) -> Result<(), OutOfBounds> {
        if let Some(peer) = self.peer(rank, &this.peer, this.among)? {
            let source = self.span_of(rank, &this.from, None)?;
            let shift = self.shift_of(rank, &this.peer, shift)?;
            let op = self.op(OpKind::Send, this.among, &this.place);
            self.push(rank, Op { peer, shift, source, ..op }, &this.place);
        }
        Ok(())
    }

    /// The receiving half, as the sender computes it. `waits` tells whether it runs after other
    /// streams.
    fn receive(
        &mut self,
        (sender, rank): (usize, usize),
        this: &Transfer,
        shift: u32,
        waits: bool,
    ) -> Result<(), OutOfBounds> {
        let target = self.span_of(sender, &this.to, None)?;
        let shift = self.shift_of(sender, &this.peer, shift)?;
        let shift = if shift == NONE { NONE } else { self.shifts[shift as usize].back };
        let after = if waits { this.place.after.clone() } else { Vec::new() };
        let place = Place { on: this.place.on, after };
        let op = self.op(OpKind::Receive, this.among, &place);
        self.push(rank, Op { peer: sender as u32, shift, target, ..op }, &place);
        Ok(())
    }
}
