//! Estimates are arithmetic: what grows, what is shared, what is hidden, and what they add up to.

use crate::schedules;
use std::time::Duration;

use crate::schedules::{
    Sketch, gradients, halo, hierarchical, one_f1b, overlap, pipeline, ring_exchange,
};
use typed_nccl_plan::build::PlanBuilder;
use typed_nccl_plan::cost::{Estimate, Topology, estimate, estimate_with};
use typed_nccl_plan::ir::{CollectiveKind, Reduction};
use typed_nccl_plan::lower::Work;

fn on_h200(sketch: &Sketch) -> Estimate {
    estimate(&sketch.plan, &sketch.schedule, &Topology::h200_node())
}

fn with_compute(sketch: &Sketch, seconds: f64) -> Estimate {
    let topology = Topology::h200_node();
    let step = Duration::from_secs_f64(seconds);
    estimate_with(&sketch.plan, &sketch.schedule, &topology, |_| step)
}

/// Within a part in a hundred.
fn is_about(found: f64, wanted: f64) {
    assert!((found / wanted - 1.0).abs() < 0.01, "{found} is not about {wanted}");
}

#[test]
fn a_group_of_all_reduces_costs_what_was_measured() {
    let one_by_one = on_h200(&gradients(8, 64, 256, false)).total;
    let grouped = on_h200(&gradients(8, 64, 256, true)).total;
    is_about(one_by_one, 1005e-6);
    is_about(grouped, 32.6e-6);
}

#[test]
fn messages_and_signals_cost_what_was_measured() {
    is_about(on_h200(&ring_exchange(8, 256)).total, 8.1e-6);
    // One put each way around the ring, then the wait.
    let mut puts = halo(8);
    for (r, rank) in (0..).zip(&mut puts.schedule.ranks) {
        let (left, right) = ((r + 7) % 8, (r + 1) % 8);
        let u = schedules::part(0, 0, 0, 256);
        let works = [schedules::put(u, right, u, 1), schedules::wait(&[(1, left)])];
        rank.calls.retain(|call| call.stream.0 == schedules::NET);
        for (call, work) in rank.calls.iter_mut().zip(works) {
            call.work = Work::Group(vec![work]);
        }
    }
    is_about(on_h200(&puts).total, 17.5e-6);
    let mut captured = halo(8);
    let eager = on_h200(&captured).total;
    captured.plan.launch = typed_nccl_plan::ir::Launch::Captured;
    is_about(on_h200(&captured).total - eager, 23.7e-6);
}

#[test]
fn large_collectives_reach_the_bandwidth_that_was_measured() {
    let bytes = 1_u64 << 30;
    let total = on_h200(&gradients(8, 1, bytes / 4, true)).total;
    is_about(2.0 * 7.0 / 8.0 * bytes as f64 / total, 359.5e9);
    let total = on_h200(&ring_exchange(8, bytes / 4)).total;
    is_about(bytes as f64 / total, 359.5e9);
}

#[test]
fn more_bytes_take_longer() {
    for make in [
        |len| ring_exchange(4, len),
        |len| gradients(8, 3, len, true),
        |len| gradients(16, 3, len, false),
        |len| hierarchical(2, 8, len),
    ] {
        let mut last = 0.0;
        for len in [1 << 8, 1 << 12, 1 << 16, 1 << 20, 1 << 24] {
            let total = on_h200(&make(len)).total;
            assert!(total > last, "{len} elements take {total}, fewer took {last}");
            last = total;
        }
    }
}

#[test]
fn more_ranks_take_no_less() {
    for len in [256, 1 << 20] {
        let mut last = 0.0;
        for n in [1, 2, 4, 8, 16, 32, 64] {
            let total = on_h200(&gradients(n, 1, len, true)).total;
            assert!(total >= last, "{n} ranks take {total}, fewer took {last}");
            last = total;
        }
    }
    // A neighbour costs the same in a ring of any size, as long as it is on the same node.
    assert_eq!(on_h200(&ring_exchange(4, 64)).total, on_h200(&ring_exchange(8, 64)).total);
    assert!(on_h200(&ring_exchange(9, 64)).total > on_h200(&ring_exchange(8, 64)).total);
}

#[test]
fn all_kinds_of_collectives_take_time() {
    let kinds = [CollectiveKind::Broadcast(0), CollectiveKind::AllGather, CollectiveKind::AllToAll];
    for kind in kinds {
        let of = |len| {
            let mut sketch = gradients(16, 0, len, true);
            for r in 0..16 {
                let x = schedules::part(0, 0, 0, len);
                sketch.group(r, &[], 1, vec![schedules::collective(kind, 0, x, x)]);
            }
            on_h200(&sketch).total
        };
        assert!(of(1 << 20) > of(1 << 10) && of(1 << 10) > 0.0, "{kind:?}");
    }
}

#[test]
fn local_work_takes_a_launch_and_its_bytes() {
    let of = |len, of| {
        let mut sketch = gradients(2, 0, len, true);
        let x = schedules::part(0, 0, 0, len);
        let work = Work::Assign { to: x, by: Reduction::Sum, of: vec![x; of] };
        sketch.call(0, schedules::NET, &[], 1, work);
        on_h200(&sketch).total
    };
    let launch = Topology::h200_node().launch;
    is_about((of(1 << 28, 2) - launch) / (of(1 << 28, 1) - launch), 1.5);
    is_about(of(1 << 28, 2) - launch, 3.0 * 4.0 * (1_u64 << 28) as f64 / 4.8e12);
}

#[test]
fn a_plan_of_nothing_takes_nothing() {
    let mut plan = PlanBuilder::new("nothing");
    plan.ranks(1..);
    let nothing = on_h200(&Sketch::new(plan, &[4], &[], "n = 4"));
    assert_eq!((nothing.total, nothing.ranks.len()), (0.0, 4));
    assert!(nothing.critical.is_empty() && nothing.streams.is_empty() && !nothing.hangs);
    let free = pipeline(4, 4);
    assert_eq!(estimate(&free.plan, &free.schedule, &Topology::free()).total, 0.0);
}

#[test]
fn the_critical_path_sums_to_the_total() {
    for sketch in [
        ring_exchange(16, 1000),
        halo(4),
        pipeline(4, 6),
        one_f1b(8, 12),
        hierarchical(3, 8, 1 << 20),
        gradients(8, 9, 100, false),
    ] {
        let found = with_compute(&sketch, 31e-6);
        let sum: f64 = found.critical.iter().map(|call| call.seconds).sum();
        assert!((sum / found.total - 1.0).abs() < 1e-9, "{sum} of {}", found.total);
        let shares: f64 = found.critical.iter().map(|call| call.share).sum();
        assert!((shares - 1.0).abs() < 1e-9);
        for call in &found.critical {
            let calls = &sketch.schedule.ranks[call.rank as usize].calls;
            assert_eq!(calls[call.call as usize].from, call.from);
        }
        assert_eq!(found.total, found.ranks.iter().copied().fold(0.0, f64::max));
    }
}

#[test]
fn compute_hides_communication_beside_it() {
    let len = 1 << 22;
    let net = on_h200(&overlap(8, len, true)).total;
    let step = 2.0 * net;
    is_about(with_compute(&overlap(8, len, true), step).total, step);
    is_about(with_compute(&overlap(8, len, false), step).total, step + net);
}

#[test]
fn a_pipeline_waits_while_it_fills() {
    let step = 1e-3;
    let sketch = pipeline(4, 8);
    let found = with_compute(&sketch, step);
    // Fill and drain: mb + p - 1 steps, and the messages between them.
    assert!(found.total > 11.0 * step && found.total < 11.5 * step, "{}", found.total);
    let last = found.streams.iter().find(|of| of.rank == 3 && of.stream.0 == schedules::NET);
    assert!(last.expect("rank 3 has a network stream").waits > 3.0 * step);
    let computes = found.streams.iter().filter(|of| of.stream.0 == schedules::CMP);
    for of in computes {
        is_about(of.busy, 8.0 * step);
    }
}

#[test]
fn everyone_sending_first_never_ends() {
    let mut sketch = ring_exchange(3, 4);
    for rank in &mut sketch.schedule.ranks {
        let both = rank.calls.pop().expect("a group");
        let Work::Group(operations) = &both.work else { unreachable!() };
        for one in operations {
            let mut call = both.clone();
            call.work = Work::Group(vec![one.clone()]);
            rank.calls.push(call);
        }
    }
    let found = on_h200(&sketch);
    assert!(found.hangs && found.critical.is_empty());
    assert!(found.to_string().contains("never ends"));
    assert!(sketch.schedule.to_text(&sketch.plan).contains("waits in a circle"));
    assert!(sketch.schedule.to_svg(&sketch.plan).contains("waits in a circle"));
    assert!(sketch.schedule.to_mermaid(&sketch.plan).contains("waits in a circle"));
}

#[test]
fn an_estimate_says_where_its_time_goes() {
    let text = on_h200(&gradients(8, 2, 256, false)).to_string();
    assert_eq!(
        text,
        "about 31.41 us, of which\n   50.0 %    15.70 us  rank 0, line 4\n   50.0 %    15.70 us  rank 0, line 4\n"
    );
}
