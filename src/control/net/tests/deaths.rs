//! Ranks that die or leave.

use super::super::Leaves;
use super::*;

/// Kills a rank between exchanges; every survivor is told, by name, soon.
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
fn the_death_of_a_leaf_is_told() {
    death(20, 19);
}

#[test]
fn the_death_of_an_interior_rank_is_told() {
    death(40, 1);
}

#[test]
fn the_death_of_rank_0_is_told_and_ends_nothing_else() {
    death(2, 0);
    death(40, 0);
}

#[test]
fn a_rank_that_leaves_says_why_and_the_others_find_new_ways() {
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

/// Rank 17 has no way to the others when it dies: the rank that it should have come to notices.
#[test]
fn a_rank_that_dies_while_it_looks_for_a_new_way_is_missed() {
    let hub = Hub::start(Duration::from_millis(200)).expect("a listener and a thread");
    let place = place(&hub);
    let mut nodes: Vec<_> = (0..20).map(|rank| Node::come(&hub, &place, rank, 20)).collect();
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
    let (last, left) = (nodes.remove(17), nodes.remove(1));
    let site = Site::caller();
    left.control.post("barrier", site, vec![]);
    thread::sleep(Duration::from_millis(50));
    // Rank 17 hears nothing in between, or it would have found another way.
    let (node, why) = (left.key, "it was aborted: enough".to_owned());
    let leave = Command::Leave { node, why, how: Leaves::Gone };
    hub.send(Command::AtOnce(vec![leave, Command::Close(node), Command::Kill(last.key)]));
    for result in each(&nodes, |_, node| node.exchange("barrier", b"", LIMIT)) {
        let error = result.expect_err("two are gone").to_string();
        assert!(error.contains("it has not come back") && error.contains("17"), "{error}");
    }
}

/// The same of processes of their own: whoever the ranks should have come to finds that nobody listens
/// there, and does not wait as long as a process may be silent.
#[test]
fn processes_that_die_without_a_way_are_looked_for() {
    let hub = Hub::start(Duration::from_secs(600)).expect("a listener and a thread");
    let (place, far) = (place(&hub), [process(), process(), process()]);
    let hub_of = |rank: usize| rank.checked_sub(17).map_or(&hub, |at| &far[at]);
    let mut nodes: Vec<_> =
        (0..20).map(|rank| Node::come(hub_of(rank), &place, rank, 20)).collect();
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
    let (lost, above) = (nodes.split_off(17), nodes.remove(1));
    above.kill();
    lost.iter().for_each(Node::kill);
    // Nobody listens any more for a process without ranks.
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

/// Ranks die at any moment, whoever they are: each survivor is told who, and none waits for ever.
#[test]
fn deaths_at_any_moment_are_told_to_all_who_live() {
    for seed in 0..12 {
        let dice = &mut Dice(seed);
        let size = 2 + dice.roll(50);
        let victims: Vec<usize> = (0..1 + dice.roll(3)).map(|_| dice.roll(size)).collect();
        let nodes = ranks(size);
        let rests: Vec<u64> = victims.iter().map(|_| dice.roll(30) as u64).collect();
        let started = Instant::now();
        // Some die while they still look for each other.
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
                // One that is dead does not know.
                let limit = Duration::from_millis(if victims.contains(&rank) { 300 } else { 3000 });
                if let Err(error) = node.exchange("barrier", b"", limit) {
                    return error;
                }
            }
        });
        killer.join().expect("no panic");
        for (rank, error) in results.iter().enumerate().filter(|(rank, _)| !victims.contains(rank))
        {
            // One that died before it came is missing, as far as anybody knows.
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
