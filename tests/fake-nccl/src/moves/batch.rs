//! The operations that one rank enqueues on one stream at once.

use std::sync::Arc;

use super::collective::{self, Collective, Transfer};
use super::member::{Counted, Link, Member, Ticket};
use super::signals::{self, Cells, Target, Wait, Write};

/// A call as it was made.
pub(crate) enum Work {
    Collective(Collective),
    /// To or from a peer: the peer, the address, the number of bytes.
    Send(usize, usize, usize),
    Recv(usize, usize, usize),
    Raise(Target, Option<Write>),
    Wait(Vec<Wait>),
}

/// The calls of a batch, and their meaning for the peers.
#[derive(Default)]
pub(super) struct Batch {
    /// The ticket of all operations that are not one-sided.
    kernel: Option<Ticket>,
    sends: Vec<Transfer>,
    recvs: Vec<Transfer>,
    collectives: Vec<(u64, Collective)>,
    one_sided: Vec<OneSided>,
}

enum OneSided {
    Raise(Target, Option<Write>),
    Wait(Ticket, Vec<Wait>),
}

impl Work {
    /// The connection it needs. Transfers connect too, without blocking any thread.
    pub(super) fn link(&self) -> Option<Link> {
        match self {
            Self::Collective(_) => Some(Link::Collectives),
            Self::Send(..) | Self::Recv(..) => None,
            Self::Raise(..) | Self::Wait(_) => Some(Link::Signals),
        }
    }
}

impl Batch {
    /// Calls that count now.
    pub(super) fn of(member: &Arc<Member>, calls: &[Work]) -> Self {
        let mut batch = Self::default();
        calls.iter().for_each(|call| batch.add(member, call));
        if !batch.sends.is_empty() || !batch.recvs.is_empty() || !batch.collectives.is_empty() {
            batch.kernel = Some(member.ticket(false));
        }
        batch
    }

    fn add(&mut self, member: &Arc<Member>, work: &Work) {
        let transfer = |&peer, &address, &bytes, counted| {
            let number = member.count(counted);
            Transfer { address, bytes, peer, number }
        };
        match work {
            Work::Collective(call) => {
                self.collectives.push((member.count(Counted::Collective), *call));
            }
            Work::Send(peer, address, bytes) => {
                self.sends.push(transfer(peer, address, bytes, Counted::SendTo(*peer)));
            }
            Work::Recv(peer, address, bytes) => {
                self.recvs.push(transfer(peer, address, bytes, Counted::RecvFrom(*peer)));
            }
            Work::Raise(target, write) => {
                self.one_sided.push(OneSided::Raise(*target, write.clone()));
            }
            Work::Wait(waits) => {
                self.one_sided.push(OneSided::Wait(member.ticket(true), waits.clone()));
            }
        }
    }

    /// Runs in the order of its stream.
    pub(super) fn run(self, member: &Arc<Member>, cells: Cells) {
        let Self { kernel, sends, recvs, collectives, one_sided } = self;
        if kernel.as_ref().is_some_and(Ticket::turn) {
            under_way(member, &sends, &recvs, &collectives);
        }
        drop(kernel);
        for work in one_sided {
            match work {
                OneSided::Raise(target, write) => {
                    signals::raise(member, cells, target, write.as_ref());
                }
                OneSided::Wait(ticket, waits) => signals::wait(member, cells, &ticket, &waits),
            }
        }
    }
}

/// All operations of a group are in progress at once.
fn under_way(
    member: &Member,
    sends: &[Transfer],
    recvs: &[Transfer],
    collectives: &[(u64, Collective)],
) {
    sends.iter().for_each(|send| send.post(member));
    collectives.iter().for_each(|(number, call)| collective::run(member, *number, *call));
    recvs.iter().for_each(|recv| recv.receive(member));
    sends.iter().for_each(|send| send.settle(member));
}
