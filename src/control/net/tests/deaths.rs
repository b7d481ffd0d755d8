//! Deaths and departures.

use super::super::Leaves;
use super::super::frame;
use super::super::message::{Hello, Message};
use super::*;

/// Kills a rank between exchanges; every survivor soon gets an error that names it.
fn death(size: usize, victim: usize) {
    let mut nodes = ranks(size);
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
    let killed = nodes.remove(victim);
    killed.kill();
    let started = Instant::now();
    for result in each(&nodes, |_, node| node.exchange("barrier", b"", LIMIT)) {
        let error = result.expect_err("one is dead");
        let Error::PeerFailed(failed) = &error else { panic!("{error}") };
        assert_eq!(failed.lost, [Rank::at(victim)], "{error}");
        let pid = format!("process {}", std::process::id());
        assert!(failed.why.contains(&pid) && failed.why.contains("call was init at"), "{error}");
    }
    assert!(started.elapsed() < Duration::from_secs(15), "{:?}", started.elapsed());
}

#[test]
fn the_death_of_a_leaf_is_reported() {
    death(20, 19);
}

#[test]
fn the_death_of_an_interior_rank_is_reported() {
    death(40, 1);
}

#[test]
fn the_death_of_rank_0_is_reported_and_ends_nothing_else() {
    death(2, 0);
    death(40, 0);
}

#[test]
fn a_rank_that_leaves_says_why_and_the_others_attach_elsewhere() {
    let mut nodes = ranks(40);
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
    let left = nodes.remove(1);
    left.control.depart("it was aborted: enough");
    drop(left);
    for result in each(&nodes, |_, node| node.exchange("barrier", b"", LIMIT)) {
        let error = result.expect_err("one has left");
        assert!(error.to_string().contains("rank 1 left: it was aborted: enough"), "{error}");
    }
}

/// Rank 17 has no parent when it dies; the rank that it should have attached to notices.
#[test]
fn an_orphan_that_dies_is_missed() {
    let hub = Hub::start(Duration::from_secs(1)).expect("a listener and a thread");
    let place = place(&hub);
    let mut nodes: Vec<_> = (0..20).map(|rank| Node::join(&hub, &place, rank, 20)).collect();
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
    let (last, left) = (nodes.remove(17), nodes.remove(1));
    let site = Site::caller();
    left.control.post("barrier", site, vec![]);
    thread::sleep(Duration::from_millis(50));
    // The commands run together, so rank 17 has no time to attach elsewhere.
    let (node, why) = (left.key, "it was aborted: enough".to_owned());
    let leave = Command::Leave { node, why, how: Leaves::Gone };
    hub.send(Command::AtOnce(vec![leave, Command::Close(node), Command::Kill(last.key)]));
    for result in each(&nodes, |_, node| node.exchange("barrier", b"", LIMIT)) {
        let error = result.expect_err("two are gone").to_string();
        assert!(error.contains("it has not come back") && error.contains("17"), "{error}");
    }
}

/// In separate processes, the rank that orphans should attach to finds their ports closed, long
/// before the silence limit.
#[test]
fn orphans_that_die_are_probed() {
    let hub = Hub::start(Duration::from_secs(600)).expect("a listener and a thread");
    let (place, far) = (place(&hub), [process(), process(), process()]);
    let hub_of = |rank: usize| rank.checked_sub(17).map_or(&hub, |at| &far[at]);
    let mut nodes: Vec<_> =
        (0..20).map(|rank| Node::join(hub_of(rank), &place, rank, 20)).collect();
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
    let (lost, above) = (nodes.split_off(17), nodes.remove(1));
    above.kill();
    lost.iter().for_each(Node::kill);
    // Closes the listeners of the processes without ranks.
    drop((lost, far));
    let started = Instant::now();
    let results = each(&nodes, |_, node| {
        loop {
            let error = node.exchange("barrier", b"", LIMIT).expect_err("four are gone");
            let Error::PeerFailed(failed) = &error else { return error };
            if failed.lost.len() == 4 || started.elapsed() > LIMIT {
                return error;
            }
            thread::sleep(Duration::from_millis(5));
        }
    });
    for error in results {
        let Error::PeerFailed(failed) = &error else { panic!("{error}") };
        assert_eq!(failed.lost.len(), 4, "{error}");
    }
}

/// Whenever and whichever ranks die, each survivor learns which, and none waits for ever.
#[test]
fn deaths_at_any_moment_reach_all_survivors() {
    for seed in 0..12 {
        let dice = &mut Dice(seed);
        let size = 2 + dice.roll(50);
        let victims: Vec<usize> = (0..1 + dice.roll(3)).map(|_| dice.roll(size)).collect();
        let nodes = ranks(size);
        let rests: Vec<u64> = victims.iter().map(|_| dice.roll(30) as u64).collect();
        let started = Instant::now();
        // Some die before the ranks have met.
        if seed % 4 != 0 {
            all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
        }
        let keys: Vec<_> =
            victims.iter().map(|victim| (nodes[*victim].hub.clone(), nodes[*victim].key)).collect();
        let killer = thread::spawn({
            let rests = rests.clone();
            move || {
                for ((hub, key), rest) in keys.into_iter().zip(rests) {
                    thread::sleep(Duration::from_millis(rest));
                    hub.send(Command::Kill(key));
                }
            }
        });
        let results = each(&nodes, |rank, node| {
            loop {
                // A killed node is silent to its own rank.
                let limit = match victims.contains(&rank) {
                    true => Duration::from_millis(300),
                    // One that died before the ranks have met may be missing at the deadline.
                    false => Duration::from_secs(if seed % 4 == 0 { 3 } else { 15 }),
                };
                if let Err(error) = node.exchange("barrier", b"", limit) {
                    return error;
                }
            }
        });
        killer.join().expect("no panic");
        for (rank, error) in results.iter().enumerate().filter(|(rank, _)| !victims.contains(rank))
        {
            // A rank that died before it arrived is only missing.
            let missing = ["have not come", "is missing and made no host-side call"];
            let says = |words: &&str| error.to_string().contains(*words);
            let is_missing = seed % 4 == 0 && missing.iter().any(says);
            let Error::PeerFailed(failed) = error else {
                assert!(
                    is_missing,
                    "seed {seed}, rank {rank} of {size}, victims {victims:?}: {error}"
                );
                continue;
            };
            let is_victim = |lost: &Rank| victims.contains(&lost.index());
            assert!(failed.lost.iter().all(is_victim), "seed {seed}, victims {victims:?}: {error}");
        }
        assert!(started.elapsed() < LIMIT, "seed {seed}: {:?}", started.elapsed());
    }
}

/// Rank 1 is still at the rendezvous when rank 2 dies and rank 0 ends because of it. Only the
/// rendezvous can tell rank 1 which of them was lost first.
#[test]
fn a_rank_at_the_rendezvous_learns_of_a_death_before_rank_0_ends() {
    let (hub, key) = (process(), next_node());
    let place = BootstrapHandle::new(hub.addresses.clone()).expect("random bytes");
    let place = BootstrapHandle { secret: Secret::of_text("test").public(), ..place };
    place.open(&hub, Some(key));
    let meet = Meet { host: Some(0), ..place.meet("here".to_owned()) };
    let joiner = Joiner::of(hub.clone(), 0, 3, random()).expect("a rank");
    let meeting = joiner.join(key, meet, place.secret.clone()).expect("it can look for the others");
    let root = Node::of(meeting, key, hub.clone(), 0);

    let (mut guest, ..) = claim(&place, 1, Version::own(), &place.secret);
    let job = ident::job().into();
    let member = hub.member(random());
    let hello = Hello { rank: 1, size: 3, seat: random(), job, member };
    let mut bytes = Vec::new();
    Message::Hello(hello).push(&mut bytes);
    guest.write_all(&bytes).expect("it is read");

    let last = Node::join(&process(), &place, 2, 3);
    // The table exists once all three ranks have arrived.
    let has_table = |node: &Node| node.meeting.uplink().is_some_and(|it| it.comm_id().is_some());
    while !has_table(&root) || !has_table(&last) {
        thread::sleep(Duration::from_millis(10));
    }
    thread::sleep(Duration::from_millis(200));
    last.kill();
    let error = root.exchange("init", b"", LIMIT).expect_err("one is dead");
    assert!(error.to_string().contains("rank 2 left: its process is gone"), "{error}");
    hub.send(Command::Close(key));

    let mut received = Vec::new();
    guest.read_to_end(&mut received).expect("it is told and let go");
    let (mut rest, mut dead) = (&received[..], Vec::new());
    while let Ok(Some(content)) = frame::next(rest, frame::MOST) {
        let end = content.end;
        if let Ok(Message::Left(left)) = postcard::from_bytes(&rest[content]) {
            dead.extend(left.died.then_some(left.rank));
        }
        rest = &rest[end..];
    }
    assert_eq!(dead, [2]);
}
