//! A node at the rendezvous, until it is attached to the tree.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use super::super::channels::Event;
use super::super::conns::Key;
use super::super::endpoint::{Deferred, Net, Timer};
use super::super::ident::{self, CommId};
use super::super::message::{Failure, Hello, Left, MOST_RANKS, Member, Message, Table};
use super::super::proof::Secret;
use super::{Dial, Node};
use crate::Rank;
use crate::error::{Error, InitFailed};

impl Node {
    /// The address of the rendezvous is known, or has changed.
    pub(crate) fn handle_rendezvous(
        &mut self,
        net: &mut Net,
        at: Vec<SocketAddr>,
        id: CommId,
        secret: Option<Secret>,
    ) {
        let Some(meet) = &mut self.meet else { return };
        if meet.id != id {
            self.lost = None;
        }
        (meet.addresses, meet.id) = (at, id);
        if let Some(secret) = secret {
            self.secret = secret;
        }
        if self.id.is_none() && self.bootstrap.is_none() && self.dial.is_none() {
            self.dial(net, None);
        }
    }

    pub(super) fn send_hello(&self, net: &mut Net, key: Key) {
        let hello = Hello {
            rank: self.rank,
            size: self.size,
            seat: self.seat,
            job: ident::job().into(),
            member: self.member.clone(),
        };
        net.conns.send(key, &Message::Hello(hello));
    }

    /// Whether the rendezvous that this node lost is gone for good, which fails this rank. An
    /// address may be stale: what was lost there may belong to an earlier run, and this run's
    /// rendezvous may follow within three heartbeats.
    pub(super) fn gives_up_rendezvous(&mut self, net: &mut Net) -> bool {
        let (Some(lost), Some(meet)) = (&self.lost, &self.meet) else { return false };
        let patience = if meet.may_be_stale { net.conns.heartbeat * 3 } else { Duration::ZERO };
        if net.now() - lost.since < patience || meet.host == Some(self.rank) {
            return false;
        }
        let (place, reason) = (&meet.name, &lost.reason);
        match meet.host {
            Some(rank) => {
                let why = format!("its process, where the ranks meet ({place}), is gone: {reason}");
                self.handle_departure(net, Left::dead(rank, why), None);
            }
            None => {
                let why = format!("the process where the ranks meet, {place}, is gone: {reason}");
                self.fail(net, Vec::new(), why);
            }
        }
        true
    }

    /// Handles a message of the rendezvous; false if it is out of place.
    pub(crate) fn handle_bootstrap_message(
        &mut self,
        net: &mut Net,
        key: Key,
        message: Message<'_>,
    ) -> bool {
        self.lost = None;
        match message {
            Message::Welcome { id, ancestors } => {
                if self.id.is_none() && ancestors.iter().all(Member::is_bounded) {
                    self.ancestors = ancestors;
                    self.set_id(net, id);
                    self.attach(net);
                }
            }
            Message::Later(pause) => {
                self.bootstrap = None;
                net.conns.end(key);
                self.dial = Some(Dial::new(None, net.now()));
                let pause = Duration::from_millis(pause.min(10_000).into());
                net.timers.set(net.now() + pause, Timer::Dial(self.key));
            }
            Message::Table(bytes) => {
                let is_table = self.handle_table(net, bytes, None);
                self.handle_attached(net);
                return is_table;
            }
            Message::Fail(failure) => self.handle_failure(net, failure, None),
            Message::Missing { count, ranks } => self.handle_missing(net, count, ranks, None),
            Message::Left(left) => return self.handle_departure(net, left, None),
            Message::Beat => {}
            Message::Bye { .. } => {
                self.bootstrap = None;
                net.conns.end(key);
                if self.id.is_none() {
                    let why = "came to a meeting that is over: who asked it to come has gone on without it, or has ended";
                    self.fail(net, vec![self.rank], why.to_owned());
                }
            }
            _ => return false,
        }
        true
    }

    /// This node has its parent (the root: the table), so it leaves the rendezvous.
    pub(super) fn handle_attached(&mut self, net: &mut Net) {
        if self.rank == 0 && self.table.is_none() {
            return;
        }
        if let Some(bootstrap) = self.bootstrap.take() {
            net.conns.send(bootstrap, &Message::Linked);
            net.conns.end(bootstrap);
        }
    }

    pub(super) fn handle_table(&mut self, net: &mut Net, bytes: &[u8], from: Option<Key>) -> bool {
        if self.table.is_some() {
            return true;
        }
        let known = self
            .id
            .and_then(|id| net.tables.lock().get(&id).cloned())
            .and_then(|table| table.upgrade());
        let table = known.filter(|table| *table.bytes == *bytes);
        let Some(table) = table.or_else(|| Table::decode(bytes, self.size).map(Arc::new)) else {
            return false;
        };
        if let Some(id) = self.id {
            net.tables.lock().insert(id, Arc::downgrade(&table));
        }
        self.pass_on(net, &Message::Table(&table.bytes), from);
        self.table = Some(table);
        net.deferred.push_back(Deferred::Table(self.key));
        true
    }

    /// This rank found that the ranks cannot form a communicator.
    pub(super) fn fail(&mut self, net: &mut Net, ranks: Vec<u32>, why: String) {
        self.handle_failure(net, Failure { size: self.size, ranks, why }, None);
    }

    /// A rank of another job came to the rendezvous. If the rank with that number is lost, the
    /// newcomer does not compete with it.
    pub(crate) fn handle_mixed_jobs(&mut self, net: &mut Net, failure: Failure) {
        if !failure.ranks.iter().any(|rank| self.has_lost(*rank)) {
            self.handle_failure(net, failure, None);
        }
    }

    /// The ranks cannot form a communicator, as this rank or a peer found.
    pub(crate) fn handle_failure(&mut self, net: &mut Net, failure: Failure, from: Option<Key>) {
        let is_rank = |rank: &u32| (*rank as usize) < MOST_RANKS;
        if self.failed.is_some() || !failure.ranks.iter().all(is_rank) {
            return;
        }
        self.pass_on(net, &Message::Fail(failure.clone()), from);
        let Failure { size, ranks, why } = failure.clone();
        let ranks = ranks.into_iter().map(Rank).collect();
        let error = Error::InitFailed(Box::new(InitFailed { size: size as usize, ranks, why }));
        self.report(net, &Event::Failed(error.clone()));
        if let Some(meeting) = self.meeting() {
            meeting.fail(error);
        }
        self.failed = Some(failure);
    }

    pub(super) fn handle_missing(
        &mut self,
        net: &mut Net,
        count: u32,
        ranks: Vec<u32>,
        from: Option<Key>,
    ) {
        self.pass_on(net, &Message::Missing { count, ranks: ranks.clone() }, from);
        let named: Vec<String> = ranks.iter().take(16).map(u32::to_string).collect();
        let more = if (count as usize) > named.len() { " and others" } else { "" };
        let trouble =
            format!("{count} of {} ranks have not come: {}{more}", self.size, named.join(", "));
        self.meeting().inspect(|meeting| meeting.set_trouble(trouble));
    }
}
