//! Meeting at a rendezvous, and failures to meet.

use std::time::Instant;

use super::*;
use crate::control::net::conns::Conns;
use crate::control::net::ident::CommId;
use crate::control::net::proof::Secret;
use crate::control::net::rendezvous::Rendezvous;

#[test]
fn a_missing_rank_is_named() {
    let hub = process();
    let place = place(&hub);
    let nodes: Vec<_> =
        (0..4).filter(|rank| *rank != 2).map(|rank| Node::join(&hub, &place, rank, 4)).collect();
    each(&nodes, |_, node| node.waits_until_told(&["1 of 4 ranks have not come: 2"]));
}

#[test]
fn two_ranks_of_one_number_are_one_error_on_all() {
    let hub = process();
    let place = place(&hub);
    let nodes: Vec<_> = [0, 1, 1].map(|rank| Node::join(&hub, &place, rank, 3)).into();
    for result in each(&nodes, |_, node| node.exchange("init", b"", LIMIT)) {
        let error = result.expect_err("rank 1 is there twice").to_string();
        assert!(error.contains("rank 1 was taken twice: by host"), "{error}");
    }
}

#[test]
fn sizes_that_differ_are_one_error_on_all() {
    let hub = process();
    let place = place(&hub);
    let nodes: Vec<_> = [(0, 2), (1, 3)].map(|(rank, n)| Node::join(&hub, &place, rank, n)).into();
    for result in each(&nodes, |_, node| node.exchange("init", b"", LIMIT)) {
        let error = result.expect_err("they disagree").to_string();
        assert!(error.contains("ranks 0 and 1 disagree on the number of ranks"), "{error}");
    }
}

#[test]
fn another_version_is_one_error_on_all() {
    let hub = process();
    let place = place(&hub);
    let node = Node::join(&hub, &place, 0, 2);
    let (_, proof, verdict) = claim(&place, 1, Version::named("99.0.0"), &place.secret);
    assert_eq!(proof.verify_verdict(&place.secret, &verdict), Some(proof::Verdict::OtherVersion));
    let error = node.exchange("init", b"", LIMIT).expect_err("the builds differ").to_string();
    assert!(error.contains("rank 1 runs typed-nccl 99.0.0"), "{error}");
}

#[test]
fn an_id_serves_one_communicator() {
    let hub = process();
    let place = place(&hub);
    let nodes: Vec<_> = (0..2).map(|rank| Node::join(&hub, &place, rank, 2)).collect();
    all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
    drop(nodes);
    let again = Node::join(&hub, &place, 0, 2);
    let error = again.exchange("init", b"", LIMIT).expect_err("it was used").to_string();
    assert!(error.contains("an id serves one communicator"), "{error}");
}

/// A rank at a rendezvous whose process dies gets an error before its deadline.
#[test]
fn a_place_whose_process_dies_is_named() {
    for (host, may_be_stale, words) in [
        (None, false, "the process where the ranks meet, here, is gone: its connection"),
        (Some(0), false, "rank 0 left: its process, where the ranks meet (here), is gone"),
        (Some(0), true, "rank 0 left: its process, where the ranks meet (here), is gone"),
    ] {
        let (there, hub) = (process(), Hub::start(Duration::from_secs(1)).expect("a hub"));
        let place = place(&there);
        let meet = Meet { may_be_stale, host, ..place.meet("here".to_owned()) };
        let joiner = |joiner: &Joiner| joiner.join(next_node(), meet, place.secret.clone());
        let node = Node::by(&hub, 1, 3, joiner);
        node.waits_until_told(&["2 of 3 ranks have not come"]);
        drop(there);
        let error = node.exchange("init", b"", LIMIT).expect_err("nobody else comes").to_string();
        assert!(error.contains(words), "{error}");
    }
}

/// A port at which nobody listens, as in `tests/processes`: below those that the system gives to
/// connections, and kept in UDP by this process, so that no other test takes it before a rank does.
pub(super) fn free_port() -> u16 {
    let is_free = |port: &u16| {
        let number = std::net::UdpSocket::bind(("127.0.0.1", *port)).map(std::mem::forget);
        number.is_ok() && std::net::TcpListener::bind(("127.0.0.1", *port)).is_ok()
    };
    let ports = std::iter::repeat_with(|| 10_000 + 5 * (random() % 2000) as u16);
    ports.take(1000).find(is_free).expect("there is a free port")
}

#[test]
fn ranks_meet_at_an_address_and_do_so_again() {
    let (hub, address) = (process(), format!("127.0.0.1:{}", free_port()));
    for _ in 0..3 {
        let secret = Secret::of_text("test").public();
        let come = |rank| {
            Node::by(&hub, rank, 4, |joiner| {
                joiner.tcp(std::slice::from_ref(&address), secret.clone(), None)
            })
        };
        // Rank 0 arrives last.
        let nodes: Vec<_> = [3, 2, 1, 0].map(come).into_iter().rev().collect();
        all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
        all_well(each(&nodes, |_, node| node.exchange(FINISH, b"", LIMIT)));
    }
}

#[test]
fn a_port_that_is_taken_is_named() {
    let other = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = format!("{}", other.local_addr().expect("its address"));
    let joiner = Joiner::of(process(), 0, 2, 1).expect("a rank");
    let error = joiner
        .tcp(std::slice::from_ref(&address), Secret::of_text("test").public(), None)
        .map(drop)
        .expect_err("it is taken");
    assert!(error.to_string().contains(&format!("rank 0 cannot listen at {address}")), "{error}");
}

#[test]
fn a_foreign_listener_is_named() {
    let other = std::net::TcpListener::bind(("127.0.0.1", 0)).expect("a port");
    let address = format!("{}", other.local_addr().expect("its address"));
    let hub = process();
    let node = Node::by(&hub, 1, 2, |joiner| {
        joiner.tcp(std::slice::from_ref(&address), Secret::of_text("test").public(), None)
    });
    let (mut peer, _) = other.accept().expect("it comes");
    peer.write_all(&[b'x'; 200]).expect("it reads");
    node.waits_until_told(&[&address, "is not typed-nccl"]);
}

#[test]
fn ranks_meet_by_a_file_and_one_of_an_earlier_run_does_no_harm() {
    let folder = std::env::temp_dir().join(format!("typed-nccl-test-{:x}", random()));
    std::fs::create_dir(&folder).expect("a folder");
    let path = folder.join("meet");
    for _ in 0..2 {
        let hub = process();
        let come = |rank| Node::by(&hub, rank, 3, |joiner| joiner.file(&path));
        // The second time, the file names the process of the first run, which is gone.
        let mut nodes = vec![come(1), come(2)];
        thread::sleep(Duration::from_millis(100));
        nodes.insert(0, come(0));
        all_well(each(&nodes, |_, node| node.exchange("init", b"", LIMIT)));
        all_well(each(&nodes, |_, node| node.exchange(FINISH, b"", LIMIT)));
    }
    std::fs::write(folder.join("other"), "something else").expect("a file");
    let hub = process();
    let node = Node::by(&hub, 1, 2, |joiner| joiner.file(&folder.join("other")));
    node.waits_until_told(&["it belongs to user"]);
    std::fs::remove_dir_all(folder).expect("it is gone");
}

#[test]
fn a_failed_rendezvous_ends_in_time() {
    let start = Instant::now();
    let after = |seconds| start + Duration::from_secs(seconds);
    let failed = || {
        let mut conns = Conns::new(Duration::from_secs(5), start);
        let ids = [CommId([1; 16]), CommId([2; 16])];
        let mut meet = Rendezvous::new(ids[0], ids[1], Secret::of_text("any"), (None, None));
        assert!(!meet.is_finished(after(1000)), "ranks may come");
        meet.fail(&mut conns, vec![], "they disagree".to_owned());
        meet
    };
    // Nobody ends it: it tells those who come later, but not for ever.
    let meet = failed();
    assert_eq!([59, 60].map(|seconds| meet.is_finished(after(seconds))), [false, true]);
    // Its process ends: the ranks on their way have had time since the failure.
    let mut meet = failed();
    meet.end();
    assert_eq!([4, 5].map(|seconds| meet.is_finished(after(seconds))), [false, true]);
}
