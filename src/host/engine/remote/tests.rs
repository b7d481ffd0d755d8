//! Processes that are forgotten, or forget this one.

use std::io::ErrorKind;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use super::super::active_group::{Booked, HostOp};
use super::super::comm::Member;
use super::super::state::State;
use super::super::stream::{self, Task};
use super::super::{ENGINE, Here};
use super::packet::{Event, Header, Named};
use super::{Ear, Place, Reach};
use crate::backend::form::Collective;
use crate::backend::{Join, Listener, WindowId, Wire};
use crate::communicator::{CommConfig, Health};
use crate::error::{Call, CollectiveName, Site};
use crate::health::Limits;
use crate::host::block::Block;
use crate::host::mirror::PeerParts;
use crate::host::moves::Held;
use crate::host::shared::stand_in::{StandIn, take_turn};
use crate::host::shared::{self, Peer};
use crate::{DType, Rank};

const WITHIN: Duration = Duration::from_secs(5);

const WINDOW: WindowId = 3;

/// Where a peer's memory is, in its process.
const PLACE: u64 = 4 << 20;

/// A control plane that says nothing.
struct Silent;

impl Wire for Silent {
    fn tell(&self, _: Option<Rank>, _: Vec<u8>) {}

    fn listen(&self, _: Weak<dyn Listener>) {}
}

/// Rank 0 of three.
struct Joined {
    member: Member,
    health: Arc<Health>,
}

impl Joined {
    fn new() -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(u64::MAX / 2);
        let health = Arc::new(Health::new("World", Rank(0)));
        let member = ENGINE.join(Join {
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            rank: 0,
            size: 3,
            ordinal: 0,
            name: "World",
            config: CommConfig::default(),
            health: health.clone(),
            deadline: WITHIN,
            limits: Limits::new(WITHIN),
            ids: None,
            wire: Some(Arc::new(Silent)),
        });
        Self { member, health }
    }

    /// Has a rank in that process.
    fn with(self, rank: usize, process: &StandIn, peer: Arc<Peer>) -> Self {
        let place = self.member.place();
        ENGINE.with_remote(place, |remote| remote.ranks[rank] = Place::Known(process.address()));
        ENGINE.connected(place, rank, Reach::Mapped(peer));
        self
    }

    fn has_lost(&self, rank: usize) -> bool {
        let is_silent = ENGINE.with_remote(self.member.place(), |remote| remote.is_silent(rank));
        is_silent.expect("it is there") && self.health.fault().is_some()
    }

    /// Has a rank say where its part of a window is, in its process.
    fn hears_of_window(&self, rank: u32, process: &mut StandIn, offset: u64, bytes: u64) {
        let header = Header { tick: 1, comm: self.member.place().id, rank, causes: Vec::new() };
        let event = Event::Window(WINDOW, Named::Shared { offset, bytes });
        process.says(&postcard::to_stdvec(&(header, event)).expect("it can be written"));
        ENGINE.change(Here::Nothing, State::hear);
    }

    /// Registers this rank's part of the window.
    fn registers(&self, bytes: usize) -> Held {
        let part = Held::all(Block::zeroed(0, bytes).expect("there is so much"), bytes);
        let place = self.member.place();
        ENGINE.change(Here::Nothing, |state, _| state.register(place, WINDOW, part.clone()));
        part
    }

    /// What a process has heard of this communicator.
    fn told(&self, process: &mut StandIn) -> Vec<Event> {
        let event = |bytes: &Vec<u8>| {
            let (header, event) = postcard::from_bytes::<(Header, Event)>(bytes).expect("an event");
            (header.comm == self.member.place().id).then_some(event)
        };
        process.heard().iter().filter_map(event).collect()
    }

    /// The ranks of which a process has heard that they died, before anything else.
    fn told_dead(&self, process: &mut StandIn) -> Vec<u32> {
        let dead = |event| match event {
            Event::Gone { rank, died: true, .. } => Some(rank),
            _ => None,
        };
        self.told(process).into_iter().map_while(dead).collect()
    }
}

#[test]
fn a_process_that_is_taken_for_dead_is_lost_in_every_communicator() {
    let _turn = take_turn();
    let [mut dies, mut third] = [(); 2].map(|()| StandIn::new());
    let (peer, other) = (dies.connect(), third.connect());
    let first = Joined::new().with(1, &dies, peer.clone());
    let second = Joined::new().with(1, &dies, peer).with(2, &third, other);
    let ear = Ear::new(first.member.place(), "World", 3);
    ear.process_died(Rank(1), "it is silent");
    assert!(first.has_lost(1) && second.has_lost(1));
    assert!(second.health.check().is_err_and(|error| error.to_string().contains("it is silent")));
    assert_eq!(second.told_dead(&mut third), [1]);
}

#[test]
fn a_process_that_has_ended_is_lost_when_it_is_forgotten() {
    let _turn = take_turn();
    let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().expect("it starts");
    let mut ends = StandIn::of(child.id() as i32);
    let peer = ends.connect();
    let comm = Joined::new().with(1, &ends, peer);
    ENGINE.bury();
    assert!(!comm.has_lost(1));
    child.kill().expect("it runs");
    child.wait().expect("it was killed");
    ENGINE.bury();
    assert!(comm.has_lost(1));
}

#[test]
fn a_process_that_cannot_be_read_is_lost_and_the_others_are_told() {
    let _turn = take_turn();
    let [mut broken, mut third] = [(); 2].map(|()| StandIn::new());
    let (peer, other) = (broken.connect(), third.connect());
    let comm = Joined::new().with(1, &broken, peer).with(2, &third, other);
    broken.says_nonsense();
    ENGINE.change(Here::Nothing, State::hear);
    assert!(comm.has_lost(1));
    assert_eq!(comm.told_dead(&mut third), [1]);
}

#[test]
fn a_process_that_takes_this_one_for_dead_is_lost_and_not_blamed() {
    let _turn = take_turn();
    let [mut forgets, mut third] = [(); 2].map(|()| StandIn::new());
    let (peer, other) = (forgets.connect(), third.connect());
    let comm = Joined::new().with(1, &forgets, peer).with(2, &third, other);
    // It says nothing more itself.
    forgets.forgets_this();
    ENGINE.change(Here::Nothing, State::hear);
    assert!(comm.has_lost(1));
    assert!(comm.told_dead(&mut third).is_empty());
}

#[test]
fn a_process_that_took_this_one_for_dead_is_lost_before_it_is_met_again() {
    let _turn = take_turn();
    let mut forgets = StandIn::new();
    let peer = forgets.connect();
    let before = Joined::new().with(1, &forgets, peer);
    forgets.forgets_this();
    let meet = || shared::connect(&forgets.address(), WITHIN).map(drop).map_err(|it| it.kind());
    assert_eq!(meet(), Err(ErrorKind::ConnectionReset));
    let after = Joined::new();
    let address = forgets.address();
    ENGINE.with_remote(after.member.place(), |it| it.ranks[1] = Place::Known(address));
    ENGINE.change(Here::Nothing, State::hear);
    assert!(before.has_lost(1));
    // The rank that joins asks it, and is not told of what was before.
    assert_eq!(meet(), Err(ErrorKind::ConnectionRefused));
    assert!(after.health.fault().is_none());
    // It may be a reader again already, which is not forgotten.
    shared::send(b"up");
    assert_eq!(forgets.heard().last().map(Vec::as_slice), Some(&b"up"[..]));
}

#[test]
fn a_process_that_is_forgotten_while_a_rank_connects_to_it_is_asked_again() {
    let _turn = take_turn();
    let mut forgotten = StandIn::new();
    let peer = forgotten.connect();
    shared::forget(forgotten.id());
    let comm = Joined::new().with(1, &forgotten, peer);
    assert_eq!(ENGINE.addresses(comm.member.place()), [(1, forgotten.address())]);
}

#[test]
fn a_window_begins_where_elements_can() {
    let _turn = take_turn();
    let mut process = StandIn::new();
    let peer = process.connect();
    let comm = Joined::new().with(1, &process, peer);
    comm.hears_of_window(1, &mut process, PLACE, 64);
    comm.hears_of_window(1, &mut process, 1, 0);
    assert!(comm.health.fault().is_none());
    comm.hears_of_window(1, &mut process, PLACE + 4, 64);
    let fault = comm.health.fault().map(|fault| fault.to_string()).unwrap_or_default();
    assert!(fault.contains("its process sent what cannot be"), "{fault}");
}

#[test]
fn a_window_has_no_more_elements_than_its_process_says() {
    let _turn = take_turn();
    let [mut short, mut empty] = [(); 2].map(|()| StandIn::new());
    let (peer, other) = (short.connect(), empty.connect());
    let comm = Joined::new().with(1, &short, peer).with(2, &empty, other);
    comm.registers(64);
    comm.hears_of_window(1, &mut short, PLACE, 8);
    comm.hears_of_window(2, &mut empty, 0, 0);
    let parts = ENGINE.parts(comm.member.place(), WINDOW).expect("all have said theirs");
    // All agreed on ten.
    let parts = PeerParts::new(parts, &|_| 10);
    let lens = [0, 1, 2, 3].map(|rank| parts.part::<f32>(rank).map(|(_, len)| len));
    assert_eq!(lens, [Some(10), Some(2), Some(0), None]);
}

#[test]
fn a_group_that_sends_what_a_closure_writes_is_refused() {
    let _turn = take_turn();
    let mut process = StandIn::new();
    let peer = process.connect();
    let comm = Joined::new().with(1, &process, peer);
    let (place, window) = (comm.member.place(), comm.registers(64));
    let all_gather = || {
        let (name, recv) = (CollectiveName::AllGather, Block::zeroed(0, 48).expect("little"));
        let call = Call::new(name, DType::U8, 16, Site::caller());
        let (send, recv) = (window.part(32, 16), Held::all(recv, 48));
        let (send, recv) = (Some(send), Some(Some(recv)));
        let op = Collective { name, call, reduction: None, send, recv, config: None };
        HostOp { index: 0, op: Booked::Collective(op), private: None }
    };
    let closure = window.whole(true).take(Some(Site::caller()));
    let stream = ENGINE.open_stream();
    ENGINE.change(Here::Nothing, |state, _| {
        let ops = vec![all_gather()];
        let time = stream::now();
        state.push(&stream, Task::Group { place, unit: 0, ops, refused: None, time });
    });
    let told = comm.told(&mut process);
    let refused = told.iter().find_map(|event| match event {
        Event::Group { refused, .. } => Some(refused.clone().unwrap_or_default()),
        _ => None,
    });
    let why = refused.expect("the group has begun");
    assert!(why.contains("bytes 32..48 of a window of rank 0"), "{why}");
    drop(closure);
}
