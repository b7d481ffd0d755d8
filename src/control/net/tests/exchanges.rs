//! Exchanges: every rank gets every contribution.

use super::*;

#[test]
fn every_rank_gets_every_part() {
    for size in [1, 2, 3, 18, 40] {
        let nodes = ranks(size);
        for round in 0..4_u8 {
            let results = each(&nodes, |rank, node| {
                let bytes = [round, u8::try_from(rank).expect("few")];
                node.exchange("gather", if round == 2 { &[] } else { &bytes }, LIMIT)
            });
            for parts in all_well(results) {
                assert_eq!(parts.len(), size);
                for (rank, part) in parts.iter().enumerate() {
                    let expected = [round, u8::try_from(rank).expect("few")];
                    assert_eq!(**part, *(if round == 2 { &[][..] } else { &expected[..] }));
                }
            }
        }
        all_well(each(&nodes, |_, node| node.exchange(FINISH, b"", LIMIT)));
    }
}

#[test]
fn long_values_arrive() {
    let nodes = ranks(3);
    let bytes = |rank: usize| vec![u8::try_from(rank).expect("few"); 3_000_000 + rank];
    let results = each(&nodes, |rank, node| node.exchange("gather", &bytes(rank), LIMIT));
    for parts in all_well(results) {
        for (rank, part) in parts.iter().enumerate() {
            assert!(**part == *bytes(rank));
        }
    }
}

#[test]
fn mismatched_calls_fail_on_every_rank() {
    let nodes = ranks(3);
    let results = each(&nodes, |rank, node| {
        node.exchange(if rank == 1 { "barrier" } else { "gather" }, b"", LIMIT)
    });
    for (rank, result) in results.into_iter().enumerate() {
        let error = result.expect_err("the calls differ").to_string();
        let named = if rank == 1 { "called gather at" } else { "rank 1 called barrier at" };
        assert!(error.contains(named) && error.contains("net/tests/"), "{error}");
    }
}

#[test]
fn splits_are_trees_of_their_own() {
    let nodes = ranks(7);
    let site = Site::caller();
    let children = each(&nodes, |rank, node| {
        let ticket = node.control.post("split", site, vec![]);
        let patience = Patience::new(&node.health, given(LIMIT), "split", site);
        node.control.collect(ticket, &patience).expect("all split");
        let color = u32::try_from(rank % 2).expect("few");
        // In descending order.
        let members: Vec<u32> = (0..7).rev().filter(|member| member % 2 == color).collect();
        let place = members.iter().position(|member| *member as usize == rank).expect("a member");
        let child = node.meeting.child(ticket.0, color, place, &members);
        let child = Control::new(child, Rank::at(place).0);
        let ticket = child.post("init", site, vec![u8::try_from(rank).expect("few")]);
        let parts = child.collect(ticket, &patience).expect("all come");
        let ranks: Vec<u32> = parts.iter().map(|part| part[0].into()).collect();
        assert_eq!(ranks, members);
        child
    });
    let ids: Vec<u64> = children.iter().map(Control::id).collect();
    assert!(ids[0] == ids[2] && ids[1] == ids[3] && ids[0] != ids[1]);
    all_well(each(&nodes, |_, node| node.exchange(FINISH, b"", LIMIT)));
}

/// Threads of each rank submit the same keys in different orders; all ranks issue them in one
/// order.
#[test]
fn requests_of_many_threads_are_in_one_order_everywhere() {
    use crate::control::Agenda;

    let nodes = ranks(18);
    let site = Site::caller();
    let issued = each(&nodes, |rank, node| {
        let ticket = node.control.post("Ordered::new", site, vec![]);
        let patience = Patience::new(&node.health, given(LIMIT), "share", site);
        node.control.collect(ticket, &patience).expect("all take part");
        let own = Rank::at(rank);
        let agenda = node.control.shared(ticket, |wire| Agenda::new(18, own, wire));
        agenda.listen();
        let order = Mutex::new(Vec::new());
        thread::scope(|scope| {
            for thread in 0..4 {
                let (agenda, order) = (&agenda, &order);
                scope.spawn(move || {
                    for round in 0..5 {
                        // A key may be reused once its request is issued.
                        let key = format!("{}", (thread + round * usize::from(rank % 2 == 0)) % 4);
                        let key =
                            if rank % 2 == 0 && round > 0 { format!("{thread}") } else { key };
                        let request = agenda.submit(own, &key, site);
                        let started = Instant::now();
                        while !agenda.is_turn(own, &request) {
                            assert!(started.elapsed() < LIMIT, "{}", agenda.report(own, &request));
                            agenda.wait(own, &request, Duration::from_millis(5));
                        }
                        order.lock().expect("no panic").push(key);
                        agenda.issued(own);
                    }
                });
            }
        });
        let last = agenda.submit(own, &format!("only {rank}"), site);
        assert!(rank != 0 || agenda.report(own, &last).contains("have not submitted `only 0`"));
        order.into_inner().expect("no panic")
    });
    for order in &issued {
        assert_eq!((order.len(), order), (20, &issued[0]));
    }
}
