//! Schedules of MSCCL++: right ones, and for each mistake what is found.

#[path = "schedules/mscclpp.rs"]
mod schedules;

use schedules::{
    all_gather, block, gpu, moved, nop, ops, over, packets, plan, ports, range, remote,
};
use serde_json::{Value, json};
use typed_nccl_plan::verdict::Check;
use typed_nccl_verify::{Report, verify};

fn report(plan: &Value) -> Report {
    let text = format!("{plan:#}");
    verify(text.as_bytes(), "test.json").unwrap_or_else(|error| panic!("{error}\n{text}"))
}

fn broken(plan: &Value, check: Check) -> String {
    let report = report(plan);
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
    let mut all: Vec<Value> =
        (2..=5).flat_map(|ranks| [all_gather(ranks), packets(ranks)]).collect();
    all.push(ports());
    for plan in &all {
        let report = report(plan);
        assert!(report.is_right(), "{report}");
    }
}

#[test]
fn a_signal_covers_its_thread_only() {
    let mut plan = all_gather(2);
    // The `nop` before the signal.
    ops(&mut plan, 1, 0).remove(5);
    let text = broken(&plan, Check::Hazards);
    says(
        &text,
        &["output chunk 1 of rank 0 is used by two", "rank 1 block 0, step 4 (put) writes it"],
    );
}

#[test]
fn a_wait_covers_its_thread_only() {
    let mut plan = all_gather(2);
    let ops = ops(&mut plan, 0, 0);
    ops.push(moved("put", vec![range("o", 1)], vec![remote(0, 0)]));
    // The `nop` after the wait.
    ops.remove(8);
    broken(&plan, Check::Hazards);
}

#[test]
fn a_relaxed_signal_does_not_say_that_data_has_arrived() {
    let mut plan = all_gather(2);
    for rank in 0..2 {
        ops(&mut plan, rank, 0)[6]["name"] = json!("rlxsignal");
    }
    let text = broken(&plan, Check::Hazards);
    says(&text, &["its caller reads it after the run"]);
}

#[test]
fn nobody_writes_to_a_rank_that_may_not_have_begun() {
    let mut plan = all_gather(3);
    for rank in 0..3 {
        ops(&mut plan, rank, 0).drain(..3);
    }
    let text = broken(&plan, Check::Hazards);
    says(&text, &["its caller uses it before the run", "wait for a signal with which rank"]);
}

#[test]
fn a_signal_that_is_missing_is_a_deadlock() {
    let mut plan = all_gather(2);
    ops(&mut plan, 1, 0).remove(6);
    let text = broken(&plan, Check::Deadlock);
    // The one of the next run's beginning comes, and is taken for it.
    says(&text, &["for a signal from rank 1 over memory channel 0 between them"]);
}

#[test]
fn a_signal_on_another_channel_is_not_the_one() {
    let mut plan = all_gather(2);
    for rank in 0..2 {
        plan["gpus"][rank]["channels"][0]["connected_to"] = json!([1 - rank, 1 - rank]);
        plan["gpus"][rank]["threadblocks"][0]["channels"][0]["channel_ids"] = json!([0, 1]);
        ops(&mut plan, rank, 0)[7]["channel_ids"] = json!([1]);
    }
    let text = broken(&plan, Check::Deadlock);
    says(&text, &["waits for ever: nobody signals any more", "memory channel 1 between them"]);
}

#[test]
fn a_signal_too_many_is_told() {
    let mut plan = all_gather(2);
    ops(&mut plan, 0, 0).push(over("signal", "memory", &[0]));
    let text = broken(&plan, Check::Signals);
    says(&text, &["rank 0 raises 2 signals for rank 1", "that rank 1 does not wait for"]);
}

#[test]
fn the_wrong_chunk_is_the_wrong_data() {
    let mut plan = all_gather(3);
    ops(&mut plan, 2, 0)[4]["dst_buff"][0]["index"] = json!(1);
    let text = broken(&plan, Check::Postcondition);
    says(&text, &["rank 0 has the wrong data in output chunk"]);
}

#[test]
fn packets_need_two_halves() {
    let mut plan = packets(2);
    // Rank 0 may begin the next run before rank 1 has read.
    ops(&mut plan, 1, 0).push(nop());
    assert!(report(&plan).is_right());
    plan["use_double_scratch_buffer"] = json!(false);
    let report = report(&plan);
    let races = report.breaks(Check::ReplayHazards) || report.breaks(Check::Deadlock);
    assert!(races, "{report}");
}

#[test]
fn a_packet_that_nobody_writes_is_a_deadlock() {
    let mut plan = packets(3);
    ops(&mut plan, 2, 0).remove(0);
    let text = broken(&plan, Check::Deadlock);
    says(&text, &["waits for ever: nobody writes the packet in this run"]);
}

#[test]
fn a_put_by_a_proxy_goes_on_after_the_run() {
    let mut plan = ports();
    ops(&mut plan, 0, 0)[3]["name"] = json!("pws");
    let text = broken(&plan, Check::ReplayHazards);
    says(&text, &["rank 0 block 0, step 3 (pws) in run 1 reads it", "flush its channel"]);
}

/// One rank with two blocks.
fn two_blocks(first: Vec<Value>, second: Vec<Value>) -> Value {
    let mut gpu = gpu(0, 1, [2, 2, 2], "s", "memory");
    gpu["threadblocks"] = json!([block(0, 0, "memory", first), block(1, 0, "memory", second)]);
    gpu["semaphores"] = json!([{ "init_value": 0 }, { "init_value": 0 }]);
    plan("test", "Simple", vec![gpu])
}

fn copy(from: (&str, usize), to: (&str, usize)) -> Value {
    moved("copy", vec![range(from.0, from.1)], vec![range(to.0, to.1)])
}

fn semaphore(name: &str, id: usize) -> Value {
    json!({ "name": name, "semaphore_ids": [id] })
}

#[test]
fn semaphores_and_barriers_order_blocks() {
    let write = || copy(("i", 0), ("s", 0));
    let read = || copy(("s", 0), ("o", 0));
    let barrier = || json!({ "name": "barrier", "barrier_id": 0, "num_threadblocks": 2 });
    let by_barrier =
        two_blocks(vec![barrier(), write(), barrier()], vec![barrier(), barrier(), read()]);
    assert!(report(&by_barrier).is_right(), "{}", report(&by_barrier));
    let release = || semaphore("sem_release", 0);
    let acquire = || semaphore("sem_acquire", 0);
    let by_semaphore = two_blocks(vec![write(), nop(), release()], vec![acquire(), nop(), read()]);
    assert!(report(&by_semaphore).is_right(), "{}", report(&by_semaphore));
    let none = two_blocks(vec![write()], vec![read()]);
    let text = broken(&none, Check::Hazards);
    says(&text, &["put a barrier or a semaphore between them"]);
}

#[test]
fn blocks_that_acquire_before_they_release_wait_in_a_circle() {
    let both =
        |first, second| vec![semaphore("sem_acquire", first), semaphore("sem_release", second)];
    let text = broken(&two_blocks(both(0, 1), both(1, 0)), Check::Deadlock);
    says(
        &text,
        &["blocks of rank 0 wait in a circle", "rank 0 block 1 | [0:sem_acquire] 1:sem_release"],
    );
}

#[test]
fn not_all_come_to_a_barrier() {
    let barrier = json!({ "name": "barrier", "barrier_id": 3, "num_threadblocks": 3 });
    let text = broken(&two_blocks(vec![barrier.clone()], vec![barrier]), Check::Deadlock);
    says(&text, &["not as many blocks come to the barrier", "at barrier 3, where 2 have come"]);
}

#[test]
fn a_pipeline_is_played_turn_by_turn() {
    let turns = |ops: Vec<Value>| {
        let context = json!({ "unit_size": 64, "num_chunks": 1 });
        json!({ "name": "pipeline", "iter_context": context, "ops": ops })
    };
    let write = turns(vec![copy(("i", 0), ("s", 0)), nop(), semaphore("sem_release", 0)]);
    let read = |first: Value| turns(vec![first, nop(), copy(("s", 0), ("o", 0))]);
    let right = two_blocks(vec![write.clone()], vec![read(semaphore("sem_acquire", 0))]);
    // The next run's turns do not wait for this one's readers, which the rank's end does.
    assert!(report(&right).is_right(), "{}", report(&right));
    let text = broken(&two_blocks(vec![write], vec![read(nop())]), Check::Hazards);
    says(&text, &["(copy, turn 0)"]);
}

#[test]
fn blocks_of_a_group_share_an_operation() {
    let part = |id: usize| {
        let mut copy = copy(("i", 0), ("o", 0));
        copy["tbg_info"] = json!({ "tb_id": id, "tbg_size": 2 });
        copy
    };
    let mut plan = two_blocks(vec![part(0)], vec![part(1)]);
    assert!(report(&plan).is_right());
    // Both have the whole chunk.
    for block in 0..2 {
        ops(&mut plan, 0, block)[0] = copy(("i", block), ("o", 0));
    }
    broken(&plan, Check::Hazards);
}

#[test]
fn what_the_executor_does_otherwise_is_told() {
    let mut plan = all_gather(2);
    ops(&mut plan, 0, 0)[4] = moved("get", vec![remote(0, 0)], vec![range("o", 1)]);
    says(&report(&plan).to_string(), &["the executor exchanges the offsets"]);
    let mut plan = ports();
    ops(&mut plan, 0, 0).push(over("flush", "port", &[0]));
    says(&report(&plan).to_string(), &["`flush` waits for nothing"]);
    let mut plan = all_gather(2);
    ops(&mut plan, 0, 0).extend(std::iter::repeat_n(nop(), 64));
    says(&report(&plan).to_string(), &["and the executor takes 64"]);
}

#[test]
fn chunks_lie_in_their_buffers() {
    let mut plan = all_gather(2);
    ops(&mut plan, 0, 0)[4]["dst_buff"][0]["index"] = json!(2);
    let text = broken(&plan, Check::Bounds);
    says(
        &text,
        &["(put) of block 0 of rank 0 is outside of the output of rank 1, which has 2 chunks"],
    );
}

#[test]
fn buffers_are_as_large_as_the_collective_needs() {
    let sized = |collective: &str, sizes: &[[usize; 2]]| {
        let ranks = sizes.len();
        let gpus = sizes.iter().enumerate();
        let gpus = gpus.map(|(rank, of)| gpu(rank, ranks, [of[0], of[1], 0], "o", "memory"));
        report(&plan(collective, "Simple", gpus.collect())).to_string()
    };
    for (collective, sizes) in [
        ("allreduce", [[1, 0], [1, 0]]),
        ("allreduce", [[0, 0], [0, 0]]),
        ("allreduce", [[2, 1], [2, 1]]),
        ("allreduce", [[1, 1], [2, 2]]),
        ("broadcast", [[1, 0], [1, 1]]),
        ("reduce", [[1, 1], [1, 0]]),
        ("sendrecv", [[1, 0], [1, 0]]),
        ("allgather", [[1, 1], [1, 1]]),
        ("allgather", [[1, 0], [1, 0]]),
        ("reducescatter", [[2, 2], [2, 2]]),
        ("reducescatter", [[3, 1], [3, 1]]),
        ("alltoall", [[1, 1], [1, 1]]),
        ("alltoall", [[2, 0], [2, 0]]),
    ] {
        let text = sized(collective, &sizes);
        says(&text, &["does not fit", "of 2 ranks"]);
    }
    // A test claims nothing of its buffers.
    says(&sized("test", &[[2, 0], [1, 1]]), &["right"]);
}

#[test]
fn a_schedule_has_ranks() {
    for collective in ["allreduce", "test"] {
        let text = plan(collective, "Simple", Vec::new()).to_string();
        let error = verify(text.as_bytes(), "empty.json").expect_err("it has no ranks");
        says(&error.to_string(), &["`gpus` is `[]`, which is not a list of one rank or more"]);
    }
}

#[test]
fn numbers_of_32_bits_do_not_overflow() {
    let mut many = all_gather(2);
    let copy = &mut ops(&mut many, 0, 0)[3];
    copy["tbg_info"] = json!({ "tb_id": u32::MAX, "tbg_size": 1 });
    copy["src_buff"][0]["size"] = json!(u32::MAX);
    copy["src_buff"][0]["index"] = json!(u32::MAX);
    says(&report(&many).to_string(), &["is outside of the input"]);
    let mut gpus = Vec::new();
    for rank in 0..4096_usize {
        let output = if rank == 4095 { 2_000_000 } else { 0 };
        gpus.push(json!({
            "id": rank, "input_chunks": 0, "output_chunks": output, "scratch_chunks": 0,
            "threadblocks": [],
        }));
    }
    assert!(!report(&plan("reducescatter", "Simple", gpus)).is_right());
}
