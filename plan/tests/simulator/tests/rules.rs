//! Small plans with a known outcome, for each rule.

use plan_simulator::make::*;
use plan_simulator::{Random, shake, simulate};
use typed_nccl_plan::ir::{
    Array, CollectiveKind, Coverage, ElementType, Expr, Launch, Location, LoopId, Order, Plan,
    Postcondition, Reduction, Role, Step, StepKind, Values, Version,
};
use typed_nccl_plan::verdict::Check::{self, *};

const ANY: Values = Values::AtLeast(1);

fn outcome(plan: &Plan, extents: &[i64]) -> Vec<Check> {
    let sizes = sizes(plan, extents, &[]);
    let outcome = simulate(plan, &sizes);
    assert_eq!(outcome.malformed, None);
    if outcome.is_right() {
        let torn = shake(plan, &sizes, &mut Random::new(7), 10);
        assert_eq!(torn, None, "the race detector and the schedules differ");
    }
    outcome.broken().into_iter().collect()
}

/// One input, one output, both of four elements.
fn two() -> Plan {
    let mut made = plan(ANY);
    made.buffers = vec![buffer("a", Role::In, 4), buffer("b", Role::Out, 4)];
    made
}

#[test]
fn a_ring_is_right() {
    let mut ring_plan = two();
    ring_plan.steps = vec![transfer(all(0), ring(1), all(1))];
    ring_plan.replayed = true;
    ring_plan.covers = vec![Coverage { region: all(1), at: Location::default() }];
    for n in 1..=9 {
        assert_eq!(outcome(&ring_plan, &[n]), []);
    }
}

#[test]
fn a_message_without_its_other_half() {
    let mut lone = two();
    lone.steps = vec![transfer(all(0), ring(1), all(1)), send(all(0), ring(1))];
    assert!(outcome(&lone, &[3]).contains(&Matching));
    assert!(outcome(&lone, &[1]).contains(&SelfMessages));
}

#[test]
fn lengths_and_types_agree() {
    let mut unlike = two();
    unlike.steps = vec![transfer(part(0, 0, 2), ring(1), all(1))];
    assert_eq!(outcome(&unlike, &[3]), [Agreement]);
    unlike.steps = vec![transfer(all(0), ring(1), all(1))];
    unlike.buffers[1].element = ElementType::U32;
    assert_eq!(outcome(&unlike, &[3]), [Agreement]);
}

#[test]
fn sends_before_receives_hang_but_a_group_does_not() {
    let mut local = two();
    let halves = || vec![send(all(0), ring(1)), receive(all(1), ring(-1))];
    local.steps = halves();
    assert_eq!(outcome(&local, &[2]), [Deadlock]);
    assert_eq!(outcome(&local, &[5]), [Deadlock]);
    assert!(outcome(&local, &[1]).contains(&SelfMessages));
    local.steps = vec![group(halves())];
    for n in 1..=5 {
        assert_eq!(outcome(&local, &[n]), []);
    }
    // Along an open chain, the first rank sends and the second receives.
    local.steps = vec![send(all(0), chain(1)), receive(all(1), chain(-1))];
    assert_eq!(outcome(&local, &[4]), []);
}

#[test]
fn the_halo_of_two_ranks() {
    let mut halo = plan(ANY);
    halo.buffers = vec![
        buffer("l", Role::In, 1),
        buffer("r", Role::In, 2),
        buffer("from_l", Role::Out, 2),
        buffer("from_r", Role::Out, 1),
    ];
    halo.steps = vec![group(vec![
        send(all(0), ring(-1)),
        send(all(1), ring(1)),
        receive(all(2), ring(-1)),
        receive(all(3), ring(1)),
    ])];
    assert_eq!(outcome(&halo, &[3]), []);
    assert_eq!(outcome(&halo, &[2]), [Matching, Agreement]);
    assert_eq!(outcome(&halo, &[1]), [Matching, Agreement]);
    // In the other order of receives, or in the global view, two neighbours may be one.
    let StepKind::Group(body) = &mut halo.steps[0].kind else { panic!("it is a group") };
    body.swap(2, 3);
    assert_eq!(outcome(&halo, &[2]), []);
}

#[test]
fn groups_are_alike_at_both_ends() {
    let mut exchange = plan(ANY);
    exchange.buffers = vec![buffer("a", Role::In, 4), buffer("b", Role::Out, 4)];
    let even = || (Expr::Rank % 2).eq(0);
    let odd = || (Expr::Rank % 2).eq(1);
    exchange.steps = vec![
        when(even(), vec![group(vec![send(all(0), ring(1)), receive(all(1), ring(1))])]),
        when(odd(), vec![send(all(0), ring(-1)), receive(all(1), ring(-1))]),
    ];
    assert_eq!(outcome(&exchange, &[4]), [Groups]);
}

/// A group of two communicators is launched as two, in the plan's order.
#[test]
fn groups_of_two_communicators() {
    let mut crossed = plan(ANY);
    crossed.communicators.push(communicator("row", &[0]));
    crossed.buffers = vec![
        buffer("x", Role::In, 4),
        buffer("y", Role::In, 4),
        buffer("u", Role::Out, 4),
        buffer("v", Role::Out, 4),
    ];
    let sends = || group(vec![via(send(all(1), rank(1)), 1), send(all(0), rank(1))]);
    let (first, second) = (receive(all(2), rank(0)), via(receive(all(3), rank(0)), 1));
    let mut both = |receives: Vec<Step>| {
        crossed.steps =
            vec![when(Expr::Rank.eq(0), vec![sends()]), when(Expr::Rank.eq(1), receives)];
        outcome(&crossed, &[2])
    };
    assert_eq!(both(vec![first.clone(), second.clone()]), []);
    assert_eq!(both(vec![second, first]), [Deadlock]);
}

#[test]
fn collectives_are_grouped_alike_on_all_members() {
    let mut grouped = plan(ANY);
    grouped.buffers = vec![
        buffer("x", Role::InOut, 4),
        buffer("y", Role::InOut, 2),
        buffer("a", Role::In, 3),
        buffer("b", Role::InOut, 3),
    ];
    let sum = CollectiveKind::AllReduce(Reduction::Sum);
    let reduce = |of: u32| collective(sum.clone(), all(of), all(of));
    let (root, other) = (|| Expr::Rank.eq(0), || Expr::Rank.eq(1));
    grouped.steps = vec![
        when(root(), vec![group(vec![reduce(0), reduce(1)])]),
        when(other(), vec![reduce(0), reduce(1)]),
    ];
    assert_eq!(outcome(&grouped, &[2]), [Groups]);
    let message = || when(root(), vec![send(all(2), rank(1))]);
    let receive = || when(other(), vec![receive(all(3), rank(0))]);
    grouped.steps = vec![group(vec![reduce(0), message()]), receive()];
    assert_eq!(outcome(&grouped, &[2]), [Groups]);
    grouped.steps = vec![group(vec![reduce(0), message(), receive(), reduce(1)])];
    assert_eq!(outcome(&grouped, &[2]), []);
}

#[test]
fn collectives_in_one_order() {
    let mut both = two();
    let sum = CollectiveKind::AllReduce(Reduction::Sum);
    let reduce = || collective(sum.clone(), all(0), all(1));
    let cast = || collective(CollectiveKind::Broadcast(0.into()), all(0), all(1));
    both.steps = vec![reduce(), cast()];
    assert_eq!(outcome(&both, &[3]), []);
    both.steps = vec![
        when(Expr::Rank.lt(1), vec![reduce(), cast()]),
        when(Expr::Rank.ge(1), vec![cast(), reduce()]),
    ];
    assert_eq!(outcome(&both, &[3]), [Agreement, CollectiveOrder]);
    both.steps = vec![reduce(), when(Expr::Rank.lt(1), vec![cast()])];
    assert_eq!(outcome(&both, &[3]), [Agreement, CollectiveOrder, Deadlock]);
    both.steps = vec![collective(CollectiveKind::Broadcast(2.into()), all(0), all(1))];
    assert_eq!(outcome(&both, &[3]), []);
    assert!(outcome(&both, &[2]).contains(&Bounds));
}

#[test]
fn self_messages_in_two_groups() {
    let mut own = two();
    own.steps = vec![send(all(0), ring(0)), receive(all(1), ring(0))];
    assert_eq!(outcome(&own, &[2]), [SelfMessages, Deadlock]);
    own.steps = vec![transfer(all(0), ring(0), all(1))];
    assert_eq!(outcome(&own, &[2]), []);
}

/// A put to the right with a signal, and the wait for it.
fn one_sided() -> Plan {
    let mut one = plan(ANY);
    one.buffers =
        vec![window("a", Role::In, 4), window("w", Role::Local, 4), buffer("o", Role::Out, 4)];
    one.signals = vec![named("ready")];
    one.steps = vec![
        put(all(0), ring(1), all(1), Some(0)),
        wait(vec![(0, ring(-1), 1)]),
        compute("use", vec![all(1)], vec![all(2)]),
    ];
    one
}

#[test]
fn signals_balance() {
    let mut one = one_sided();
    assert_eq!(outcome(&one, &[3]), []);
    assert_eq!(outcome(&one, &[1]), []);
    let StepKind::Put(put) = &mut one.steps[0].kind else { panic!("the first step is a put") };
    put.signal = None;
    assert_eq!(outcome(&one, &[3]), [Deadlock, Signals]);
    one.steps.remove(1);
    assert_eq!(outcome(&one, &[3]), [Hazards, Initialised]);
}

#[test]
fn the_next_run_overwrites() {
    let mut one = one_sided();
    one.replayed = true;
    assert_eq!(outcome(&one, &[3]), [ReplayHazards]);
    // A barrier at the end mends it.
    one.buffers.push(buffer("barrier", Role::InOut, 1));
    let sum = CollectiveKind::AllReduce(Reduction::Sum);
    one.steps.push(collective(sum, all(3), all(3)));
    assert_eq!(outcome(&one, &[3]), []);
}

#[test]
fn two_copies_need_an_answer_too() {
    let mut one = one_sided();
    one.replayed = true;
    one.buffers[1].copies = 2;
    // Nothing holds the sender back: after two runs it writes the same copy again.
    assert_eq!(outcome(&one, &[3]), [ReplayHazards]);
    // With messages in both directions of the ring, the receiver's last use is known in time.
    one.steps[0] = group(vec![put(all(0), ring(1), all(1), Some(0)), raise(0, ring(-1))]);
    one.steps[1] = wait(vec![(0, ring(-1), 1), (0, ring(1), 1)]);
    for n in [3, 4, 7] {
        assert_eq!(outcome(&one, &[n]), []);
    }
}

#[test]
fn captured_credit() {
    let mut two_puts = plan(ANY);
    two_puts.buffers = vec![window("a", Role::In, 4), window("w", Role::Local, 4)];
    two_puts.signals = vec![named("ready")];
    two_puts.steps = vec![
        put(part(0, 0, 2), ring(1), part(1, 0, 2), Some(0)),
        put(part(0, 2, 4), ring(1), part(1, 2, 4), Some(0)),
        wait(vec![(0, ring(-1), 2)]),
    ];
    assert_eq!(outcome(&two_puts, &[3]), []);
    two_puts.launch = Launch::Captured;
    assert_eq!(outcome(&two_puts, &[3]), []);
    two_puts.target = Version(2, 31, 0);
    assert_eq!(outcome(&two_puts, &[3]), [CapturedCredit]);
    two_puts.launch = Launch::Eager;
    assert_eq!(outcome(&two_puts, &[3]), []);
}

#[test]
fn one_counter_before_2_31() {
    let mut names = plan(ANY);
    names.signals = vec![named("x"), named("y")];
    names.steps = vec![
        raise(0, ring(1)),
        raise(1, ring(1)),
        wait(vec![(1, ring(-1), 1)]),
        wait(vec![(0, ring(-1), 1)]),
    ];
    assert_eq!(outcome(&names, &[3]), []);
    names.target = Version(2, 30, 7);
    assert_eq!(outcome(&names, &[3]), [Signals]);
    names.steps.swap(2, 3);
    assert_eq!(outcome(&names, &[3]), []);
}

fn mesh() -> Plan {
    let mut mesh = two();
    mesh.axes.push(mesh.axes[0].clone());
    mesh.communicators = vec![
        communicator("world", &[0, 1]),
        communicator("rail", &[0]),
        communicator("node", &[1]),
    ];
    mesh.streams.push(named("s1"));
    mesh.buffers.push(buffer("c", Role::Out, 4));
    mesh
}

#[test]
fn two_communicators_have_one_order() {
    let mut mesh = mesh();
    let sum = CollectiveKind::AllReduce(Reduction::Sum);
    let one = via(collective(sum.clone(), all(0), all(1)), 1);
    let other = via(collective(sum, all(0), all(2)), 2);
    mesh.steps = vec![one.clone(), other.clone()];
    assert_eq!(outcome(&mesh, &[2, 3]), []);
    mesh.steps = vec![one.clone(), on(other.clone(), 1, &[])];
    assert_eq!(outcome(&mesh, &[2, 3]), [CommunicatorOrder]);
    mesh.order = Order::Implicit;
    assert_eq!(outcome(&mesh, &[2, 3]), []);
    mesh.order = Order::Declared;
    mesh.steps = vec![one.clone(), on(other.clone(), 1, &[0])];
    assert_eq!(outcome(&mesh, &[2, 3]), []);
    mesh.replayed = true;
    assert_eq!(outcome(&mesh, &[2, 3]), [CommunicatorOrder]);
    mesh.steps = vec![on(one, 0, &[1]), on(other, 1, &[0])];
    assert_eq!(outcome(&mesh, &[2, 3]), []);
}

#[test]
fn messages_stay_in_their_communicator() {
    let mut mesh = mesh();
    mesh.buffers.truncate(2);
    mesh.steps = vec![via(transfer(all(0), hop(1, 1, true), all(1)), 2)];
    assert_eq!(outcome(&mesh, &[2, 3]), []);
    mesh.steps = vec![via(transfer(all(0), hop(0, 1, true), all(1)), 2)];
    assert!(outcome(&mesh, &[2, 3]).contains(&Bounds));
}

#[test]
fn bounds() {
    let mut far = two();
    far.steps = vec![transfer(part(0, 0, 4), ring(1), part(1, Expr::Rank, Expr::Rank + 4))];
    assert_eq!(outcome(&far, &[1]), []);
    assert_eq!(outcome(&far, &[2]), [Bounds]);
    far.steps = vec![put(all(0), ring(1), all(1), None)];
    assert!(outcome(&far, &[2]).contains(&Bounds));
    far.steps = vec![send(all(0), rank(Expr::Rank + 1)), receive(all(1), rank(Expr::Rank - 1))];
    assert!(outcome(&far, &[2]).contains(&Bounds));
}

#[test]
fn groups_do_not_alias() {
    let mut alias = plan(ANY);
    alias.buffers = vec![buffer("x", Role::InOut, 4)];
    alias.steps = vec![transfer(all(0), ring(1), all(0))];
    assert_eq!(outcome(&alias, &[3]), [Groups]);
    alias.steps = vec![collective(CollectiveKind::AllReduce(Reduction::Max), all(0), all(0))];
    assert_eq!(outcome(&alias, &[3]), []);
}

#[test]
fn a_wait_stands_alone() {
    let mut one = one_sided();
    one.steps[0] = group(vec![one.steps[0].clone(), one.steps[1].clone()]);
    one.steps.remove(1);
    assert_eq!(outcome(&one, &[3]), [Groups]);
    let mut pairs = two();
    pairs.buffers[1].len = 4 * Expr::Size;
    pairs.buffers.push(buffer("c", Role::Out, 4));
    pairs.steps = vec![
        collective(CollectiveKind::Gather(0.into()), all(0), all(1)),
        transfer(all(0), ring(1), all(2)),
    ];
    assert_eq!(outcome(&pairs, &[3]), []);
    pairs.steps = vec![group(pairs.steps.clone())];
    assert_eq!(outcome(&pairs, &[3]), [Groups]);
    pairs.streams.push(named("s1"));
    pairs.buffers[1].role = Role::Local;
    pairs.steps = vec![group(vec![
        transfer(part(0, 0, 2), ring(1), part(2, 0, 2)),
        on(transfer(part(0, 2, 4), ring(1), part(2, 2, 4)), 1, &[]),
    ])];
    assert_eq!(outcome(&pairs, &[3]), [Groups]);
}

#[test]
fn memory_orders_streams_but_not_across_a_wait() {
    let mut one = one_sided();
    one.streams.push(named("s1"));
    // A reader of the window on another stream is behind the wait.
    one.steps[2] = on(one.steps[2].clone(), 1, &[]);
    assert_eq!(outcome(&one, &[3]), []);
    // A writer before it is not: the put may come while it writes.
    let write = on(compute("zero", vec![], vec![all(1)]), 1, &[]);
    one.steps.insert(0, write);
    assert_eq!(outcome(&one, &[3]), [Hazards]);
}

#[test]
fn coverage() {
    let mut cover = two();
    cover.covers = vec![Coverage { region: all(1), at: Location::default() }];
    cover.steps = vec![transfer(part(0, 0, 2), ring(1), part(1, 0, 2))];
    assert_eq!(outcome(&cover, &[3]), [Coverage]);
    cover.steps.push(transfer(part(0, 2, 4), ring(-1), part(1, 2, 4)));
    assert_eq!(outcome(&cover, &[3]), []);
    cover.steps.push(transfer(part(0, 2, 3), ring(-1), part(1, 2, 3)));
    assert_eq!(outcome(&cover, &[3]), [Coverage]);
}

/// All-gather by neighbours: `n - 1` turns around the ring.
fn ring_all_gather() -> Plan {
    let mut gather = plan(ANY);
    gather.buffers = vec![buffer("x", Role::InOut, 2 * Expr::Size)];
    gather.counters = vec![named("i")];
    let chunk = |at: Expr| {
        let at = at % Expr::Size;
        part(0, 2 * at.clone(), 2 * (at + 1))
    };
    let turn = transfer(
        chunk(Expr::Rank - Expr::Loop(LoopId(0))),
        ring(1),
        chunk(Expr::Rank - Expr::Loop(LoopId(0))),
    );
    gather.steps = vec![repeat(0, 0, Expr::Size - 1, vec![turn])];
    let send = part(0, 2 * Expr::Rank, 2 * (Expr::Rank + 1));
    gather.computes = vec![Postcondition {
        kind: CollectiveKind::AllGather,
        send,
        recv: all(0),
        at: Location::default(),
    }];
    gather
}

#[test]
fn postconditions() {
    let mut gather = ring_all_gather();
    for n in 1..=7 {
        assert_eq!(outcome(&gather, &[n]), []);
    }
    gather.replayed = true;
    assert_eq!(outcome(&gather, &[5]), []);
    let StepKind::Loop(turns) = &mut gather.steps[0].kind else { panic!("it is a loop") };
    turns.to = Expr::Size - 2;
    assert_eq!(outcome(&gather, &[3]), [Postcondition]);
}

#[test]
fn a_hierarchical_sum() {
    let mut sum = mesh();
    sum.buffers = vec![buffer("x", Role::InOut, 6)];
    let by = Reduction::Sum;
    let chunk = || {
        let at = Expr::Coordinate(typed_nccl_plan::ir::AxisId(1));
        part(0, 2 * at.clone(), 2 * at + 2)
    };
    sum.steps = vec![
        via(collective(CollectiveKind::ReduceScatter(by), all(0), chunk()), 2),
        via(collective(CollectiveKind::AllReduce(by), chunk(), chunk()), 1),
        via(collective(CollectiveKind::AllGather, chunk(), all(0)), 2),
    ];
    let kind = CollectiveKind::AllReduce(by);
    let at = Location::default();
    sum.computes = vec![Postcondition { kind, send: all(0), recv: all(0), at }];
    assert_eq!(outcome(&sum, &[2, 3]), []);
    assert_eq!(outcome(&sum, &[1, 3]), []);
    sum.steps.remove(1);
    assert_eq!(outcome(&sum, &[2, 3]), [Postcondition]);
    sum.computes.clear();
    // In place, but not at its own place.
    sum.steps[0] = via(collective(CollectiveKind::ReduceScatter(by), all(0), part(0, 0, 2)), 2);
    assert_eq!(outcome(&sum, &[2, 3]), [Initialised]);
}

#[test]
fn what_is_read_was_written() {
    let mut read = two();
    read.buffers.push(buffer("t", Role::Local, 4));
    read.steps = vec![transfer(all(2), ring(1), all(1))];
    assert_eq!(outcome(&read, &[2]), [Initialised]);
    read.steps.insert(0, compute("fill", vec![all(0)], vec![all(2)]));
    assert_eq!(outcome(&read, &[2]), []);
    read.steps.pop();
    assert_eq!(outcome(&read, &[2]), [Initialised]);
}

#[test]
fn a_pipeline() {
    let mut pipe = plan(ANY);
    let array = Some(Array { count: 3.into(), index: LoopId(1) });
    pipe.counters = vec![named("i"), named("at")];
    pipe.streams.push(named("s1"));
    pipe.buffers = vec![buffer("inp", Role::InOut, 2), buffer("out", Role::Local, 2)];
    for buffer in &mut pipe.buffers {
        buffer.array = array.clone();
    }
    let at = |buffer| {
        let mut region = all(buffer);
        region.index = Some(Expr::Loop(LoopId(0)));
        region
    };
    let body = vec![
        on(compute("fwd", vec![at(0)], vec![at(1)]), 1, &[0]),
        on(transfer(at(1), chain(1), at(0)), 0, &[1]),
    ];
    pipe.steps = vec![repeat(0, 0, 3, vec![sequence(body.clone())])];
    pipe.replayed = true;
    for n in 1..=6 {
        assert_eq!(outcome(&pipe, &[n]), []);
    }
    // Not in a sequence, it is all stages at once: nobody hangs.
    pipe.steps = vec![repeat(0, 0, 3, body)];
    assert_eq!(outcome(&pipe, &[4]), []);
}
