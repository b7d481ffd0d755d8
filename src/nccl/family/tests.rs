//! Families of ranks that share no memory: each learns from messages what the others do.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};
use std::time::Duration;

use nccl_sys::ncclUniqueId;

use super::super::compare::Compared;
use super::super::recorder::Leg;
use super::{Family, Owing, Seen};
use crate::backend::{Departure, Join, Listener, Refusal, Slot, Wait, Wire};
use crate::communicator::{CommConfig, Health, Limits};
use crate::error::{Call, CollectiveName, Error, Operation, Site};
use crate::lock::Mutex;
use crate::{DType, Rank};

/// Messages in transit.
#[derive(Default)]
struct Net {
    under_way: Mutex<VecDeque<(Rank, Option<Rank>, Vec<u8>)>>,
    listeners: Mutex<Vec<(Rank, Weak<dyn Listener>)>>,
}

struct End(Arc<Net>, Rank);

impl Wire for End {
    fn tell(&self, to: Option<Rank>, message: Vec<u8>) {
        self.0.under_way.lock().push_back((self.1, to, message));
    }

    fn listen(&self, listener: Weak<dyn Listener>) {
        self.0.listeners.lock().push((self.1, listener));
    }
}

impl Net {
    fn deliver(&self) {
        while let Some((from, to, message)) = { self.under_way.lock().pop_front() } {
            let listeners = self.listeners.lock().clone();
            for (rank, listener) in listeners {
                if rank != from && to.is_none_or(|to| to == rank) {
                    listener.upgrade().expect("it is alive").message(from, &message);
                }
            }
        }
    }
}

struct Ranks {
    net: Arc<Net>,
    families: Vec<Arc<Family>>,
    healths: Vec<Arc<Health>>,
}

/// An NCCL id as a rank would make it.
fn id(by: usize) -> ncclUniqueId {
    ncclUniqueId::from_bytes([by as u8; 128])
}

fn ranks(n: u32) -> Ranks {
    let net = Arc::new(Net::default());
    let (mut families, mut healths) = (Vec::new(), Vec::new());
    for rank in 0..n {
        let health = Arc::new(Health::new("World", Rank(rank)));
        let deadline = Duration::from_secs(5);
        let limits = Limits::new(deadline);
        let join = Join {
            id: 1,
            rank,
            size: n,
            ordinal: rank,
            name: "World",
            config: CommConfig::default(),
            health: health.clone(),
            deadline,
            limits: limits.clone(),
            ids: None,
            wire: Some(Arc::new(End(net.clone(), Rank(rank)))),
        };
        let family = Arc::new(Family::new(&join));
        let seen = Seen { health: Arc::downgrade(&health), limits };
        assert!(family.members[rank as usize].seen.set(seen).is_ok());
        let remote = family.remote.as_ref().expect("the others are elsewhere");
        remote.listen(&family);
        if rank == 0 {
            family.ids.know(0, id(0));
            family.ids.are(2);
            remote.tell_id(&family.ids);
        }
        families.push(family);
        healths.push(health);
    }
    // Ranks that joined later also receive earlier messages.
    net.deliver();
    Ranks { net, families, healths }
}

fn all_reduce(count: usize) -> Call {
    Call::new(CollectiveName::AllReduce, DType::F32, count, Site::caller())
}

fn transfer(operation: Operation, peer: u32, count: usize) -> Call {
    let mut call = Call::new(operation, DType::F32, count, Site::caller());
    call.peer = Some(Rank(peer));
    call
}

impl Ranks {
    fn fault(&self, rank: usize) -> Error {
        self.healths[rank].fault().unwrap_or_else(|| panic!("rank {rank} heard nothing"))
    }

    fn desync(&self, rank: usize) -> Option<Error> {
        let mut compared = vec![Compared::default(); self.families.len()];
        self.families[rank].desync(rank, &mut compared)
    }
}

#[test]
fn every_rank_learns_nccls_ids() {
    let ranks = ranks(3);
    let ask = |rank: usize| {
        let (family, health) = (&ranks.families[rank], &*ranks.healths[rank]);
        let ids = family.unique((rank, health), Duration::ZERO, || Ok(id(rank)));
        ids.map(|ids| ids.iter().map(|id| id.to_bytes()[0]).collect::<Vec<_>>())
    };
    let error = ask(1).expect_err("rank 2 has not made its own").to_string();
    assert!(error.contains("rank 2 did not tell NCCL's id"), "{error}");
    assert_eq!(ask(2).ok(), Some(vec![0, 2]));
    ranks.net.deliver();
    for rank in 0..3 {
        assert_eq!(ask(rank).ok(), Some(vec![0, 2]));
    }
}

/// With 512 ranks on a machine, what each keeps of each other is a quarter of a million times as
/// much.
#[test]
fn a_rank_keeps_nothing_of_ranks_that_called_nothing() {
    let ranks = ranks(3);
    for (rank, family) in ranks.families.iter().enumerate() {
        let own = family.recorder(rank);
        if rank == 2 {
            own.collective(&all_reduce(8), 0);
        }
        family.ask();
    }
    ranks.net.deliver();
    let kept = ranks.families[0].members.iter().map(|member| member.recorder.get().is_some());
    assert_eq!(kept.collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(ranks.families[0].of(2).issued(), 1);
}

#[test]
fn what_differs_is_told_to_every_rank() {
    let ranks = ranks(3);
    for (rank, count) in [(0, 8), (1, 8), (2, 9)] {
        ranks.families[rank].recorder(rank).collective(&all_reduce(count), 0);
    }
    assert!(ranks.desync(0).is_none(), "nobody has asked yet");
    ranks.families[0].ask();
    ranks.net.deliver();
    let error = ranks.desync(0).expect("rank 2 has answered");
    ranks.families[0].end(&error);
    ranks.net.deliver();
    for rank in 0..3 {
        let said = ranks.fault(rank).to_string();
        assert!(said.contains("8 f32") && said.contains("9 f32"), "{said}");
        assert!(said.contains(file!()), "{said}");
        assert!(matches!(ranks.fault(rank), Error::Mismatch(_)));
    }
}

#[test]
fn transfers_are_compared_in_pairs() {
    let ranks = ranks(2);
    ranks.families[0].recorder(0).other(&transfer(Operation::SendTo, 1, 4));
    ranks.families[1].recorder(1).other(&transfer(Operation::RecvFrom, 0, 5));
    // Last words also carry it, if no rank waited.
    let words = ranks.families[0].last_words();
    ranks.families[1].hear_last_words(0, &words);
    let said = ranks.desync(1).expect("they differ").to_string();
    assert!(said.contains("send of 4 f32") && said.contains("recv of 5 f32"), "{said}");
}

/// Rank 1's verdict on its first two legs and rank 0's, both of which go from rank 0 to rank 1 as
/// it sees them.
fn of_legs(second: [(Option<u32>, Option<u32>); 2]) -> Option<String> {
    let ranks = ranks(4);
    for (rank, second) in [0, 1].into_iter().zip(second) {
        let recorder = ranks.families[rank].recorder(rank);
        let first = if rank == 0 { (Some(1), None) } else { (None, Some(0)) };
        for (place, (to, from)) in [first, second].into_iter().enumerate() {
            let with = |operation, peer: Option<u32>| Call {
                peer: peer.map(Rank),
                ..transfer(operation, 0, 4)
            };
            let (send, recv) = (with(Operation::SendTo, to), with(Operation::RecvFrom, from));
            recorder.leg(&Leg { place: place as u8, of: 2, send, recv });
        }
    }
    // Rank 0 is of another process.
    ranks.families[1].hear_last_words(0, &ranks.families[0].last_words());
    ranks.desync(1).map(|error| error.to_string())
}

#[test]
fn legs_of_exchanges_are_compared_by_number() {
    assert_eq!(of_legs([(Some(1), None), (None, Some(0))]), None);
    assert_eq!(of_legs([(Some(2), None), (None, Some(3))]), None);
    let said = of_legs([(Some(1), None), (None, Some(3))]).expect("they differ");
    let leg = "leg 1 of an exchange, which rank 0 sends to rank 1 and rank 1 expects from rank 3,";
    assert!(said.contains(leg) && said.contains("recv of 4 f32 from 3"), "{said}");
    let said = of_legs([(Some(3), None), (None, Some(0))]).expect("they differ");
    let leg = "leg 1 of an exchange, which rank 1 expects from rank 0 and rank 0 sends to rank 3,";
    assert!(said.contains(leg) && said.contains("send of 4 f32 to 3"), "{said}");
}

#[test]
fn a_leg_is_no_transfer_of_nccls() {
    let ranks = ranks(2);
    let (send, recv) = (transfer(Operation::SendTo, 1, 4), transfer(Operation::RecvFrom, 0, 4));
    let nobody = Call { peer: None, ..recv };
    let leg = Leg { place: 0, of: 1, send, recv: nobody };
    ranks.families[0].recorder(0).leg(&leg);
    ranks.families[1].recorder(1).other(&recv);
    ranks.families[1].hear_last_words(0, &ranks.families[0].last_words());
    let said = ranks.desync(1).expect("they differ").to_string();
    let what = "transfer #0 from rank 0 to rank 1, by a kernel of this library or not,";
    assert!(said.contains(what), "{said}");
}

#[test]
fn a_rank_that_leaves_before_its_time_is_named() {
    let ranks = ranks(3);
    ranks.families[1].depart(1, "its thread panicked", Departure::AtOnce);
    ranks.net.deliver();
    for rank in [0, 2] {
        let Error::PeerFailed(failed) = ranks.fault(rank) else { panic!("a lost peer") };
        assert_eq!((failed.lost, &*failed.why), (vec![Rank(1)], "its thread panicked"));
    }
    assert!(ranks.healths[1].is_well());
}

#[test]
fn a_process_that_dies_is_named_with_its_last_call() {
    let ranks = ranks(2);
    ranks.families[1].recorder(1).collective(&all_reduce(77), 0);
    ranks.families[1].ask();
    ranks.net.deliver();
    ranks.families[0].died(Rank(1), "its connection was closed");
    let said = ranks.fault(0).to_string();
    assert!(said.contains("its connection was closed") && said.contains("77 f32"), "{said}");
}

#[test]
fn a_rank_that_was_done_may_go() {
    let ranks = ranks(2);
    ranks.families[1].depart(1, "it called `finish`", Departure::Finished);
    ranks.net.deliver();
    ranks.families[0].died(Rank(1), "its connection was closed");
    assert!(ranks.healths[0].is_well() && ranks.families[0].left(0).is_none());
    // The call that it never made is reported.
    ranks.families[0].recorder(0).collective(&all_reduce(1), 0);
    let said = ranks.families[0].left(0).expect("it is missed").to_string();
    assert!(said.contains("it called `finish`"), "{said}");
}

/// Rank 0 misses it in an exchange, and rank 1 learns that from rank 0 first.
#[test]
fn a_rank_that_dies_when_it_was_done_is_lost_with_those_who_leave_because_of_it() {
    let ranks = ranks(3);
    ranks.families[2].depart(2, "it called `finish`", Departure::Finished);
    ranks.net.deliver();
    ranks.families[1].died(Rank(2), "its connection was closed");
    ranks.families[0].depart(0, "finish cannot complete", Departure::AtOnce);
    ranks.net.deliver();
    let Error::PeerFailed(failed) = ranks.fault(1) else { panic!("a lost peer") };
    assert_eq!(failed.lost, [Rank(0), Rank(2)]);
    assert!(failed.why.contains("its connection was closed"), "{}", failed.why);
}

#[test]
fn a_refused_call_is_told_to_who_makes_it() {
    let ranks = ranks(2);
    ranks.families[0].refuse(0, &[Refusal::Collective], &Error::other("too short"));
    ranks.families[1].recorder(1).collective(&all_reduce(3), 0);
    ranks.net.deliver();
    let Some(Error::Refused(refused)) = ranks.families[1].refused(1) else { panic!("refused") };
    assert_eq!((refused.by, refused.reason.to_string()), (Rank(0), "too short".to_owned()));
}

#[test]
fn signals_that_nobody_raises_are_known() {
    let ranks = ranks(2);
    let call = transfer(Operation::WaitSignal, 1, 2);
    let slot = Slot::default();
    ranks.families[0].signals.awaited(0, &Wait { call, peer: Rank(1), slot, count: 2 });
    ranks.families[1].signals.raised(1, Rank(0), slot, Site::caller());
    ranks.families[0].ask();
    ranks.net.deliver();
    for family in &ranks.families {
        assert_eq!(family.signals.owed(1, false), [(0, slot, 1)]);
    }
    ranks.families[1].signals.raised(1, Rank(0), slot, Site::caller());
    ranks.families[1].signals.raised(1, Rank(0), slot, Site::caller());
    let words = ranks.families[1].last_words();
    ranks.families[0].hear_last_words(1, &words);
    let left = ranks.families[0].signals.unawaited(0);
    assert_eq!((left.len(), left[0].count, left[0].from), (1, 1, Rank(1)));
}

#[test]
fn a_process_that_died_raises_no_signal_any_more() {
    let ranks = ranks(3);
    let family = &ranks.families[0];
    let wait = |from: u32| {
        let (call, slot) = (transfer(Operation::WaitSignal, from, 1), Slot::default());
        family.signals.awaited(0, &Wait { call, peer: Rank(from), slot, count: 1 });
    };
    assert_eq!(family.owing(0), None);
    wait(1);
    assert_eq!(family.owing(0), Some(Owing::Living));
    ranks.families[1].signals.raised(1, Rank(0), Slot::default(), Site::caller());
    ranks.families[1].ask();
    ranks.net.deliver();
    assert_eq!(family.owing(0), None);
    // It may have died before its calls took effect.
    family.died(Rank(1), "its connection was closed");
    assert_eq!(family.owing(0), Some(Owing::Dead));
    wait(2);
    assert_eq!(family.owing(0), Some(Owing::Living));
    // A rank whose communicator is poisoned still raises what it owes.
    family.stopped(Rank(2), "its communicator has failed");
    assert_eq!(family.owing(0), Some(Owing::Living));
    // A rank that has left dies as well.
    ranks.families[2].depart(2, "it was aborted", Departure::AtOnce);
    ranks.net.deliver();
    family.died(Rank(2), "its connection was closed");
    assert_eq!(family.owing(0), Some(Owing::Dead));
}

#[test]
fn what_a_peer_may_send_does_no_harm() {
    let ranks = ranks(2);
    let words = ranks.families[1].last_words();
    for garbage in [&[][..], &[255; 64], &[1, 255, 255, 255, 255, 15], &words] {
        ranks.families[0].message(Rank(1), garbage);
    }
    for cut in 0..words.len() {
        ranks.families[0].hear_last_words(1, &words[..cut]);
    }
    assert!(ranks.healths[0].is_well());
}
