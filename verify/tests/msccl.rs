//! Schedules of MSCCL: right ones, and for each mistake what is found.

#[path = "schedules/msccl.rs"]
mod schedules;

use schedules::{Algo, Block, all_pairs, ring, step, two_steps};
use typed_nccl_plan::verdict::{Check, ProblemKind};
use typed_nccl_verify::{Report, verify};

fn report(algo: &Algo) -> Report {
    let xml = algo.xml();
    verify(xml.as_bytes(), "test.xml").unwrap_or_else(|error| panic!("{error}\n{xml}"))
}

/// What is wrong, as text; it is this.
fn broken(algo: &Algo, check: Check) -> String {
    let report = report(algo);
    assert!(report.breaks(check), "{report}");
    report.to_string()
}

#[track_caller]
fn says(text: &str, parts: &[&str]) {
    for part in parts {
        assert!(text.contains(part), "{part} is not in\n{text}");
    }
}

#[test]
fn right_ones_are_right() {
    let mut all: Vec<Algo> = (2..=9).flat_map(|ranks| [ring(ranks), all_pairs(ranks)]).collect();
    all.push(two_steps());
    for algo in &all {
        let report = report(algo);
        assert!(report.is_right(), "{report}");
    }
}

#[test]
fn a_dropped_dependency_is_a_race() {
    let mut algo = two_steps();
    algo.step(2, 1, 1).awaits = (-1, -1);
    let text = broken(&algo, Check::Hazards);
    says(
        &text,
        &[
            "scratch chunk 0 of rank 2 is used by two without an order",
            "rank 2 block 0, step 3 (r) writes it",
            "rank 2 block 1, step 1 (s) reads it",
        ],
    );
}

#[test]
fn the_help_with_a_race_ends_it() {
    let mut algo = all_pairs(3);
    algo.step(1, 2, 2).awaits = (-1, -1);
    let text = broken(&algo, Check::Hazards);
    says(
        &text,
        &[
            "if step 2 of block 0 is to come first: `depid=\"0\" deps=\"2\"` at step 2 of block 2",
            "if step 2 of block 2 is: `depid=\"2\" deps=\"2\"` at step 2 of block 0",
        ],
    );
    algo.step(1, 2, 2).awaits = (0, 2);
    assert!(report(&algo).is_right());
}

#[test]
fn a_flag_that_nobody_sets_is_a_deadlock() {
    let mut algo = two_steps();
    algo.step(2, 0, 3).is_awaited = false;
    let text = broken(&algo, Check::Deadlock);
    says(
        &text,
        &[
            "block 1 of rank 2 waits for ever: no step sets the flag",
            "block 1, step 1 (s) waits for block 0 to come to step 3",
            "set `hasdep=\"1\"`",
        ],
    );
}

#[test]
fn ranks_that_all_receive_first_wait_in_a_circle() {
    let mut algo = ring(3);
    for rank in &mut algo.ranks {
        rank[0].steps.swap(0, 1);
    }
    let text = broken(&algo, Check::Deadlock);
    says(
        &text,
        &[
            "ranks 0 to 2 wait in a circle",
            "rank 1 block 0, step 0 (rrc) waits for a message from rank 0 over channel 0",
            "rank 1 block 0 | [0:rrc] 1:s",
        ],
    );
}

#[test]
fn blocks_of_one_rank_that_wait_for_each_other_are_found() {
    let mut algo = two_steps();
    // Each waits for the other's last step.
    *algo.step(1, 0, 0) = algo.step(1, 0, 0).clone().after(1, 3);
    algo.step(1, 1, 3).is_awaited = true;
    let text = broken(&algo, Check::Deadlock);
    says(&text, &["rank 1 block 0, step 0 (s) waits for block 1 to come to step 3"]);
}

#[test]
fn a_missing_receive_is_told() {
    let mut algo = two_steps();
    algo.ranks[3][1].steps.pop();
    let text = broken(&algo, Check::Matching);
    says(&text, &["rank 1 sends 1 messages to rank 3 over channel 0 that rank 3 does not receive"]);
    assert!(report(&algo).breaks(Check::Postcondition));
}

#[test]
fn a_missing_send_is_a_deadlock() {
    let mut algo = two_steps();
    algo.ranks[3][1].steps.remove(1);
    let text = broken(&algo, Check::Deadlock);
    says(&text, &["block 1 of rank 1 waits for ever: nobody sends what it receives"]);
}

#[test]
fn the_wrong_chunk_is_the_wrong_data() {
    let mut algo = ring(4);
    algo.step(2, 0, 1).target.1 = 3;
    let text = broken(&algo, Check::Postcondition);
    says(&text, &["has the wrong data in output chunk", "has to have chunk", "wrote it last"]);
}

#[test]
fn a_chunk_that_is_added_twice_is_the_wrong_data() {
    let mut algo = all_pairs(3);
    algo.step(0, 0, 2).source.1 = 0;
    let text = broken(&algo, Check::Postcondition);
    says(&text, &["rank 0 has to have chunk 0 of ranks 0 to 2", "chunk 0 of rank 1, twice"]);
}

#[test]
fn scratch_that_nothing_has_written_is_told() {
    let mut algo = all_pairs(3);
    algo.scratch = 3;
    algo.step(0, 0, 1).source.1 = 2;
    let text = broken(&algo, Check::Initialised);
    says(&text, &["scratch chunk 2 of rank 0 is read, and nothing has written it"]);
}

#[test]
fn what_does_not_fit_the_slots_waits() {
    let exchange = |chunks: usize, protocol| {
        let rank = |peer: usize| {
            let mut steps =
                vec![step("s", ('i', 0), ('o', 0)), step("r", ('i', 0), ('o', peer * chunks))];
            for step in &mut steps {
                step.count = chunks as u32;
            }
            let own = (1 - peer) * chunks;
            let mut copy = step("cpy", ('i', 0), ('o', own));
            copy.count = chunks as u32;
            vec![Block::new(peer, peer, steps), Block::local(vec![copy])]
        };
        Algo {
            collective: "allgather",
            protocol,
            in_place: false,
            chunks: 2 * chunks,
            scratch: 0,
            ranks: vec![rank(1), rank(0)],
        }
    };
    let xml = |algo: &Algo| algo.xml().replace("i_chunks=\"6\"", "i_chunks=\"3\"");
    let right = verify(xml(&exchange(3, "LL")).as_bytes(), "").expect("it is read");
    assert!(right.is_right(), "{right}");
    let wrong = verify(xml(&exchange(3, "Simple")).as_bytes(), "").expect("it is read");
    assert!(wrong.breaks(Check::Deadlock), "{wrong}");
    says(
        &wrong.to_string(),
        &[
            "ranks 0 and 1 wait in a circle, once their chunks are large",
            "for room in its connection to rank 1 over channel 0, whose 2 slots are full",
        ],
    );
}

#[test]
fn two_blocks_do_not_share_a_connection() {
    let mut algo = ring(2);
    algo.ranks[0].push(Block::new(1, 1, Vec::new()));
    algo.ranks[0][1].receive = -1;
    let text = broken(&algo, Check::Agreement);
    says(&text, &["blocks 0 and 1 of rank 0 share their connection to rank 1"]);
}

#[test]
fn chunks_lie_in_their_buffers() {
    let mut algo = ring(2);
    algo.step(1, 0, 2).source.1 = 2;
    let text = broken(&algo, Check::Bounds);
    says(&text, &["step 2 of block 0 of rank 1 is outside of its buffers"]);
}

#[test]
fn what_the_runtime_does_not_load_is_refused() {
    let mut algo = all_pairs(3);
    // The `nop` before it waits, and it does not.
    algo.step(0, 0, 1).awaits = (-1, -1);
    let report = report(&algo);
    let malformed =
        |problem: &&typed_nccl_plan::verdict::Problem| problem.kind == ProblemKind::Malformed;
    let refused = report.problems.iter().find(malformed).expect("it is refused");
    assert!(refused.title.contains("a `nop` waits for a step"), "{report}");
}

#[test]
fn nothing_is_claimed_of_a_custom_collective() {
    let mut algo = ring(3);
    algo.step(2, 0, 1).target.1 = 2;
    algo.collective = "custom";
    let report = report(&algo);
    assert!(!report.breaks(Check::Postcondition), "{report}");
}
