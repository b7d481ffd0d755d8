//! Makes a plan smaller as long as something about it stays.

use std::collections::BTreeSet;

use typed_nccl_plan::ir::{
    BufferId, CollectiveKind, CommunicatorId, ElementType, Expr, Launch, Order, Plan, Reduction,
    Role, SignalId, Step, StepKind, StreamId, Values, Version,
};
use typed_nccl_plan::verdict::Sizes;

use crate::make;

/// The smallest plan that is found, and its size, of which `stays` still holds.
pub fn shrink(
    plan: &Plan,
    sizes: &Sizes,
    stays: &mut dyn FnMut(&Plan, &Sizes) -> bool,
) -> (Plan, Sizes) {
    let (mut plan, mut sizes) = (plan.clone(), sizes.clone());
    loop {
        let mut smaller = false;
        let mut which = 0;
        loop {
            let (mut next, mut fewer) = (plan.clone(), sizes.clone());
            match change(&mut next, &mut fewer, which) {
                Change::None => break,
                Change::Idle => which += 1,
                Change::Made => {
                    fewer = make::sizes(&next, &fewer.extents, &fewer.params);
                    if (&next, &fewer) != (&plan, &sizes) && stays(&next, &fewer) {
                        // The same place again: what follows has moved up.
                        (plan, sizes) = (next, fewer);
                        smaller = true;
                    } else {
                        which += 1;
                    }
                }
            }
        }
        if !smaller {
            return (plan, sizes);
        }
    }
}

enum Change {
    Made,
    /// Nothing to do there.
    Idle,
    /// There are no more changes.
    None,
}

/// Counts down to the change that is asked for.
struct Turn {
    left: usize,
    made: Change,
}

impl Turn {
    /// Whether it is the turn of the next change.
    fn is(&mut self) -> bool {
        if self.left == 0 && matches!(self.made, Change::None) {
            self.made = Change::Made;
            return true;
        }
        self.left = self.left.saturating_sub(1);
        false
    }

    fn idle(&mut self) {
        self.made = Change::Idle;
    }
}

fn change(plan: &mut Plan, sizes: &mut Sizes, which: usize) -> Change {
    let mut turn = Turn { left: which, made: Change::None };
    let done = |turn: &Turn| !matches!(turn.made, Change::None);
    statements(plan, &mut turn);
    if done(&turn) {
        return turn.made;
    }
    let lists = [plan.covers.len(), plan.computes.len(), plan.claims.len(), plan.promises.len()];
    for list in lists.iter().enumerate() {
        for at in 0..*list.1 {
            if turn.is() {
                match list.0 {
                    0 => drop(plan.covers.remove(at)),
                    1 => drop(plan.computes.remove(at)),
                    2 => drop(plan.claims.remove(at)),
                    _ => drop(plan.promises.remove(at)),
                }
                return turn.made;
            }
        }
    }
    if turn.is() {
        tidy(plan);
        return turn.made;
    }
    settings(plan, sizes, &mut turn);
    if done(&turn) {
        return turn.made;
    }
    parts(plan, &mut turn);
    if !done(&turn) {
        pairs(plan, &mut turn);
    }
    turn.made
}

fn statements(plan: &mut Plan, turn: &mut Turn) {
    make::lists(&mut plan.steps, &mut |list| {
        for at in 0..list.len() {
            if at < list.len() && turn.is() {
                list.remove(at);
                return;
            }
        }
        for at in 0..list.len() {
            if turn.is() {
                match make::body(&mut list[at]).cloned() {
                    Some(body) => drop(list.splice(at..=at, body)),
                    None => turn.idle(),
                }
                return;
            }
        }
    });
}

/// Two statements of a list at once: what is raised and awaited, sent and received.
fn pairs(plan: &mut Plan, turn: &mut Turn) {
    make::lists(&mut plan.steps, &mut |list| {
        for second in 1..list.len() {
            for first in 0..second {
                if turn.is() {
                    list.remove(second);
                    list.remove(first);
                    return;
                }
            }
        }
    });
}

fn settings(plan: &mut Plan, sizes: &mut Sizes, turn: &mut Turn) {
    for axis in 0..plan.axes.len() {
        if turn.is() {
            plan.axes[axis].extent = Values::AtLeast(1);
        }
        if turn.is() {
            let less = sizes.extents[axis] - 1;
            if less < 1 || !plan.axes[axis].extent.contains(less) {
                return turn.idle();
            }
            sizes.extents[axis] = less;
        }
    }
    for param in 0..plan.params.len() {
        for value in 0..sizes.params[param].len() {
            if turn.is() {
                let less = sizes.params[param][value] - 1;
                if !plan.params[param].values.contains(less) {
                    return turn.idle();
                }
                sizes.params[param][value] = less;
            }
        }
    }
    if turn.is() {
        plan.launch = Launch::Eager;
    }
    if turn.is() {
        plan.replayed = false;
    }
    if turn.is() {
        plan.target = Version::default();
    }
    if turn.is() {
        plan.order = Order::Declared;
    }
    for buffer in &mut plan.buffers {
        if turn.is() {
            buffer.copies = 1;
        }
        if turn.is() {
            buffer.window = false;
        }
        if turn.is() {
            buffer.array = None;
        }
        if turn.is() {
            buffer.element = ElementType::F32;
        }
        if turn.is() {
            buffer.role = Role::InOut;
        }
        for len in [1, 2] {
            if !matches!(buffer.len, Expr::Int(shorter) if shorter <= len) && turn.is() {
                buffer.len = Expr::Int(len);
                break;
            }
        }
    }
}

/// Places, regions, peers and numbers of the statements.
fn parts(plan: &mut Plan, turn: &mut Turn) {
    for step in &mut plan.steps {
        make::place_of(step, &mut |place| {
            if turn.is() {
                place.on = StreamId(0);
            }
            for at in 0..place.after.len() {
                if at < place.after.len() && turn.is() {
                    place.after.remove(at);
                }
            }
        });
        make::among_of(step, &mut |among| {
            if turn.is() {
                *among = CommunicatorId(0);
            }
        });
        make::region_of(step, &mut |region| {
            if turn.is() {
                region.range = None;
            }
            if turn.is() {
                region.next = false;
            }
        });
        lists(step, turn);
        make::expressions(step, &mut |expr| {
            for simple in simpler(expr) {
                if turn.is() {
                    *expr = simple;
                    break;
                }
            }
        });
    }
}

/// What a statement lists.
fn lists(step: &mut Step, turn: &mut Turn) {
    match &mut step.kind {
        StepKind::Assign(one) => {
            for at in 0..one.of.len() {
                if at < one.of.len() && turn.is() {
                    one.of.remove(at);
                }
            }
        }
        StepKind::Compute(one) => {
            for at in 0..one.computes.len() {
                if at < one.computes.len() && turn.is() {
                    one.computes.remove(at);
                }
            }
            for list in [&mut one.reads, &mut one.writes] {
                for at in 0..list.len() {
                    if at < list.len() && turn.is() {
                        list.remove(at);
                    }
                }
            }
        }
        StepKind::Wait(one) => {
            for at in 0..one.signals.len() {
                if at < one.signals.len() && turn.is() {
                    one.signals.remove(at);
                }
            }
        }
        StepKind::Put(one) if turn.is() => one.signal = None,
        StepKind::Collective(one) if turn.is() => {
            one.kind = CollectiveKind::AllReduce(Reduction::Sum);
        }
        _ => make::body(step).into_iter().flatten().for_each(|inner| lists(inner, turn)),
    }
}

fn simpler(expr: &Expr) -> Vec<Expr> {
    match expr {
        Expr::Int(0) => Vec::new(),
        Expr::Int(value) => {
            vec![Expr::Int(0), Expr::Int(value / 2), Expr::Int(value - value.signum())]
        }
        Expr::Add(a, b)
        | Expr::Sub(a, b)
        | Expr::Mul(a, b)
        | Expr::Div(a, b)
        | Expr::Rem(a, b)
        | Expr::Min(a, b)
        | Expr::Max(a, b) => {
            vec![Expr::Int(0), Expr::Int(1), (**a).clone(), (**b).clone()]
        }
        _ => vec![Expr::Int(0), Expr::Int(1)],
    }
}

/// Drops what nothing names. Axes and parameters stay.
fn tidy(plan: &mut Plan) {
    let mut buffers = BTreeSet::new();
    let mut signals = BTreeSet::new();
    let mut streams = BTreeSet::from([0]);
    let mut communicators = BTreeSet::from([0]);
    let mut regions: Vec<&mut typed_nccl_plan::ir::Region> =
        plan.covers.iter_mut().map(|one| &mut one.region).collect();
    regions.extend(plan.computes.iter_mut().flat_map(|one| [&mut one.send, &mut one.recv]));
    for claim in &mut plan.claims {
        regions.push(&mut claim.to);
        regions.extend(claim.of.iter_mut().map(|source| &mut source.region));
    }
    buffers.extend(regions.iter().map(|region| region.buffer.0));
    for step in &mut plan.steps {
        make::region_of(step, &mut |region| buffers.extend([region.buffer.0]));
        make::signal_of(step, &mut |signal| signals.extend([signal.0]));
        make::among_of(step, &mut |among| communicators.extend([among.0]));
        make::place_of(step, &mut |place| {
            streams.insert(place.on.0);
            streams.extend(place.after.iter().map(|stream| stream.0));
        });
    }
    let place = |set: &BTreeSet<u32>, one: u32| set.range(..one).count() as u32;
    for region in regions {
        region.buffer = BufferId(place(&buffers, region.buffer.0));
    }
    for step in &mut plan.steps {
        make::region_of(step, &mut |one| one.buffer = BufferId(place(&buffers, one.buffer.0)));
        make::signal_of(step, &mut |one| *one = SignalId(place(&signals, one.0)));
        make::among_of(step, &mut |one| *one = CommunicatorId(place(&communicators, one.0)));
        make::place_of(step, &mut |one| {
            one.on = StreamId(place(&streams, one.on.0));
            one.after.iter_mut().for_each(|one| *one = StreamId(place(&streams, one.0)));
        });
    }
    keep(&mut plan.buffers, &buffers);
    keep(&mut plan.signals, &signals);
    keep(&mut plan.streams, &streams);
    keep(&mut plan.communicators, &communicators);
}

fn keep<T>(list: &mut Vec<T>, which: &BTreeSet<u32>) {
    let mut at = 0;
    list.retain(|_| {
        at += 1;
        which.contains(&(at - 1))
    });
}
