//! Transfers: a send on one rank, a receive on another.

use super::leaf::op;
use super::{Active, Halves, Walk};
use crate::ir::{Place, Transfer};
use crate::program::{NONE, Op, OpKind};

impl Walk<'_> {
    pub(super) fn transfer(
        &mut self,
        number: u32,
        this: &Transfer,
        active: &Active,
        halves: Halves,
    ) {
        let among = this.among.index();
        let empty = Place { on: this.place.on, after: Vec::new() };
        let sender_of = self.senders(number, this, active);
        let shift = self.shift(0, &this.peer);
        for rank in 0..self.layout.size {
            let sends = active.is(rank) && matches!(halves, Halves::Both | Halves::Sends);
            if sends && let Some(peer) = self.peer(number, rank, &this.peer, among) {
                // Both halves or none: the receiver's bounds are reported on the receiver.
                if let Some(source) = self.span(number, rank, &this.from) {
                    let shift = self.shift_of(number, rank, &this.peer, shift);
                    let op = op(OpKind::Send, number, this.among.0, &this.place);
                    self.push(rank, Op { peer, shift, source, ..op }, &this.place);
                }
            }
            if halves == Halves::Sends {
                continue;
            }
            let place = if halves == Halves::Both { &this.place } else { &empty };
            let from = |at: usize| sender_of.range(rank)[at];
            for at in 0..sender_of.range(rank).len() {
                let sender = from(at) as usize;
                let wanted = match halves {
                    Halves::FromLower => sender < rank,
                    Halves::FromHigher => sender > rank,
                    _ => true,
                };
                if wanted && let Some(target) = self.span(number, sender, &this.to) {
                    let shift = self.shift_of(number, sender, &this.peer, shift);
                    let back = if shift == NONE { NONE } else { self.shifts[shift as usize].back };
                    let op = op(OpKind::Receive, number, this.among.0, place);
                    self.push(rank, Op { peer: sender as u32, shift: back, target, ..op }, place);
                }
            }
        }
    }
}
