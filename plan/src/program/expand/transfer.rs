//! Transfers: a send on one rank, a receive on another.

use super::problems::OutOfBounds;
use super::{Active, Halves, Walk};
use crate::ir::{Place, Transfer};
use crate::program::{NONE, Op, OpKind};

impl Walk<'_> {
    pub(super) fn transfer(&mut self, this: &Transfer, active: &Active, halves: Halves) {
        let (senders, to) = self.senders(this, active);
        let shift = self.shift(0, &this.peer);
        let alone = Place { on: this.place.on, after: Vec::new() };
        let place = if halves == Halves::Both { &this.place } else { &alone };
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
                    let received = self.receive((sender, rank), this, shift, place);
                    self.found(sender, received);
                }
            }
        }
    }

    /// The receiver's bounds are checked with the receiver.
    fn send(&mut self, rank: usize, this: &Transfer, shift: u32) -> Result<(), OutOfBounds> {
        if let Some(peer) = self.peer(rank, &this.peer, this.among)? {
            let source = self.span_of((rank, rank), &this.from, None)?;
            let shift = self.shift_of(rank, &this.peer, shift)?;
            let count = self.count(rank, Some(&this.from))?;
            let op = self.op(OpKind::Send, this.among, &this.place);
            self.push(rank, Op { peer, shift, count, source, ..op }, &this.place);
        }
        Ok(())
    }

    /// The receiving half, as the sender computes it.
    fn receive(
        &mut self,
        (sender, rank): (usize, usize),
        this: &Transfer,
        shift: u32,
        place: &Place,
    ) -> Result<(), OutOfBounds> {
        let target = self.span_of((sender, rank), &this.to, None)?;
        let shift = self.shift_of(sender, &this.peer, shift)?;
        let shift = if shift == NONE { NONE } else { self.shifts[shift as usize].back };
        let count = self.count(sender, Some(&this.to))?;
        let op = self.op(OpKind::Receive, this.among, place);
        self.push(rank, Op { peer: sender as u32, shift, count, target, ..op }, place);
        Ok(())
    }
}
