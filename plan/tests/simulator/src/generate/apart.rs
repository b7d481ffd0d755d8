//! Parts of random plans that not all ranks run: the first ones, the last ones, every second one.

use typed_nccl_plan::ir::{
    AxisId, CollectiveKind, Condition, Expr, Location, Promise, Reduction, Role, Step,
};

use super::Maker;
use crate::make::{
    all, collective, compute, group, hop, put, raise, receive, repeat, send, sequence, transfer,
    via, wait, when,
};
use crate::random::Random;

/// Which ranks along an axis.
#[derive(Clone)]
enum Few {
    Below(i64),
    FromEnd(i64),
    One(i64),
    OneFromEnd(i64),
    Rest(i64, i64),
    Not(Box<Self>),
    All(Vec<Self>),
    Any(Vec<Self>),
}

impl Few {
    fn random(random: &mut Random, deep: bool) -> Self {
        let k = *random.pick(&[0, 1, 1, 1, 2, 2, 3, 4]);
        let k = if random.chance(1, 12) { random.range(5, 20) } else { k };
        let two =
            |random: &mut Random| vec![Self::random(random, false), Self::random(random, false)];
        match random.below(if deep { 13 } else { 9 }) {
            0 | 1 => Self::Below(k),
            2 | 3 => Self::FromEnd(k),
            4 => Self::One(k),
            5 => Self::OneFromEnd(k),
            6 | 7 => Self::Rest(2, k % 2),
            8 => Self::Rest(3, k % 3),
            9 => Self::All(two(random)),
            10 => Self::Any(two(random)),
            _ => Self::Not(Box::new(Self::random(random, false))),
        }
    }

    /// As it holds for the rank `by` places before this one.
    fn condition(&self, (r, n): &(Expr, Expr), by: i64) -> Condition {
        let (r, n) = (|| r.clone() - by, || n.clone());
        let list = |list: &[Self], at: &(Expr, Expr)| {
            list.iter().map(|one| one.condition(at, by)).collect()
        };
        let at = &(r() + by, n());
        match self {
            Self::Below(k) => r().lt(*k),
            Self::FromEnd(k) => r().ge(n() - *k),
            Self::One(k) => r().eq(*k),
            Self::OneFromEnd(k) => r().eq(n() - 1 - *k),
            Self::Rest(m, c) => (r() % *m).eq(*c),
            Self::Not(one) => Condition::Not(Box::new(one.condition(at, by))),
            Self::All(all) => Condition::All(list(all, at)),
            Self::Any(any) => Condition::Any(list(any, at)),
        }
    }

    fn not(&self) -> Self {
        Self::Not(Box::new(self.clone()))
    }
}

/// The coordinate and the extent that conditions speak of.
fn place(maker: &mut Maker<'_>) -> (u32, (Expr, Expr)) {
    let axes = maker.plan.axes.len();
    let axis = if maker.random.chance(3, 4) { 0 } else { maker.random.below(axes) as u32 };
    let of = match axes {
        1 if maker.random.chance(3, 4) => (Expr::Rank, Expr::Size),
        _ => (Expr::Coordinate(AxisId(axis)), Expr::Extent(AxisId(axis))),
    };
    (axis, of)
}

pub(super) fn part(maker: &mut Maker<'_>) {
    if maker.random.chance(1, 4) {
        let m = maker.random.range(2, 3);
        let rest = if maker.random.chance(4, 5) { 0 } else { 1 };
        let condition = (Expr::Extent(AxisId(0)) % m).eq(rest);
        maker.plan.promises.push(Promise {
            around: Vec::new(),
            condition,
            at: Location::default(),
        });
    }
    match maker.random.below(8) {
        0 => turns(maker),
        1 => halves(maker),
        2 => moved(maker),
        3 | 4 => windows(maker),
        5 => work(maker),
        6 => together(maker),
        _ => stages(maker),
    }
}

/// Puts some of the steps under a condition.
pub(super) fn wrap(maker: &mut Maker<'_>) {
    let (_, of) = place(maker);
    let some = Few::random(maker.random, true);
    let count = maker.plan.steps.len();
    if count == 0 {
        return;
    }
    let first = maker.random.below(count);
    let last = (first + 1 + maker.random.below(2)).min(count);
    let body: Vec<Step> = maker.plan.steps.drain(first..last).collect();
    maker.plan.steps.insert(first, when(some.condition(&of, 0), body));
}

/// Some send first, the others receive first.
fn turns(maker: &mut Maker<'_>) {
    let (axis, of) = place(maker);
    let some = Few::random(maker.random, true);
    let by = maker.distance();
    let wrap = maker.random.chance(2, 3);
    let (from, into) = (maker.source(), maker.partly());
    if from == into {
        return;
    }
    let mut first =
        vec![send(all(from), hop(axis, by, wrap)), receive(all(into), hop(axis, -by, wrap))];
    if maker.random.chance(1, 8) {
        first = vec![group(first)];
    }
    let last = vec![receive(all(into), hop(axis, -by, wrap)), send(all(from), hop(axis, by, wrap))];
    let other =
        if maker.random.chance(1, 6) { Few::random(maker.random, true) } else { some.not() };
    maker.push(when(some.condition(&of, 0), first));
    maker.push(when(other.condition(&of, 0), last));
}

/// Some send, and those receive who are that much further.
fn halves(maker: &mut Maker<'_>) {
    let (axis, of) = place(maker);
    let some = Few::random(maker.random, true);
    let by = maker.distance();
    let (from, into) = (maker.source(), maker.partly());
    if from == into {
        return;
    }
    let off = if maker.random.chance(1, 5) { 1 } else { 0 };
    let out = when(some.condition(&of, 0), vec![send(all(from), hop(axis, by, false))]);
    let back = when(some.condition(&of, by + off), vec![receive(all(into), hop(axis, -by, false))]);
    let body = if maker.random.chance(1, 2) { vec![out, back] } else { vec![back, out] };
    if maker.random.chance(1, 2) {
        maker.push(group(body));
    } else if maker.random.chance(1, 4) {
        let counter = maker.counter();
        let times = maker.random.range(1, 3);
        maker.push(repeat(counter, 0, times, body));
    } else {
        body.into_iter().for_each(|step| maker.push(step));
    }
}

/// A transfer of some.
fn moved(maker: &mut Maker<'_>) {
    let (axis, of) = place(maker);
    let some = Few::random(maker.random, true);
    let by = maker.distance();
    let (from, into) = (maker.source(), maker.partly());
    if from == into {
        return;
    }
    let wrap = maker.random.chance(1, 2);
    let step =
        when(some.condition(&of, 0), vec![transfer(all(from), hop(axis, by, wrap), all(into))]);
    if maker.random.chance(1, 2) {
        let other = Few::random(maker.random, true);
        let again = maker.partly();
        let by = maker.distance();
        let more = transfer(all(from), hop(axis, by, wrap), all(again));
        let more = when(other.condition(&of, 0), vec![more]);
        if again != from && again != into {
            maker.push(group(vec![step, more]));
        }
    } else {
        maker.push(step);
    }
}

/// A put of some, awaited by those at whom it is.
fn windows(maker: &mut Maker<'_>) {
    let (axis, of) = place(maker);
    let by = maker.distance();
    let unit = maker.unit();
    let from = maker.buffer(Role::In, unit.clone(), true);
    let into = maker.buffer(Role::InOut, unit, true);
    let result = maker.partly();
    let told = maker.signal();
    let some = match maker.random.below(3) {
        0 => Few::FromEnd(by.max(0)).not(),
        1 => Few::Below((-by).max(0)).not(),
        _ => Few::random(maker.random, true),
    };
    let wrap = maker.random.chance(1, 3);
    let (to, back) = (hop(axis, by, wrap), hop(axis, -by, wrap));
    let early = Few::random(maker.random, true);
    let read = || compute("read", vec![all(into)], vec![all(result)]);
    if maker.random.chance(1, 3) {
        maker.push(when(early.condition(&of, 0), vec![read()]));
    }
    let ready = maker.random.chance(1, 2).then(|| maker.signal());
    if let Some(ready) = ready {
        maker.push(when(some.condition(&of, by), vec![raise(ready, back.clone())]));
        maker.push(when(some.condition(&of, 0), vec![wait(vec![(ready, to.clone(), 1)])]));
    }
    maker.push(when(some.condition(&of, 0), vec![put(all(from), to, all(into), told.into())]));
    let receivers = if maker.random.chance(1, 8) { early } else { some.clone() };
    maker.push(when(receivers.condition(&of, by), vec![wait(vec![(told, back, 1)])]));
    if maker.random.chance(3, 4) {
        maker.push(read());
    }
    if maker.random.chance(1, 2) {
        let barrier = maker.partly();
        let sum = CollectiveKind::AllReduce(Reduction::Sum);
        maker.push(collective(sum, all(barrier), all(barrier)));
    }
}

/// A compute step of some.
fn work(maker: &mut Maker<'_>) {
    let (_, of) = place(maker);
    let some = Few::random(maker.random, true);
    let (from, to) = (maker.source(), maker.partly());
    let step = match maker.random.below(3) {
        0 => compute("nothing", vec![], vec![]),
        1 => compute("some", vec![all(from)], vec![all(to)]),
        _ => {
            let unit = maker.unit();
            let own = maker.buffer(Role::Local, unit, false);
            let write = compute("first", vec![], vec![all(own)]);
            maker.push(when(some.condition(&of, 0), vec![write]));
            let reader =
                if maker.random.chance(2, 3) { some } else { Few::random(maker.random, true) };
            let read = compute("then", vec![all(own)], vec![all(to)]);
            return maker.push(when(reader.condition(&of, 0), vec![read]));
        }
    };
    maker.push(when(some.condition(&of, 0), vec![step]));
}

/// A collective of some, and perhaps one of the others.
fn together(maker: &mut Maker<'_>) {
    let (_, of) = place(maker);
    let some = Few::random(maker.random, true);
    let among = maker.communicator();
    let sum = || CollectiveKind::AllReduce(Reduction::Sum);
    let (one, other) = (maker.partly(), maker.partly());
    maker.push(when(
        some.condition(&of, 0),
        vec![via(collective(sum(), all(one), all(one)), among)],
    ));
    if maker.random.chance(1, 2) {
        let step = via(collective(sum(), all(other), all(other)), among);
        maker.push(when(some.not().condition(&of, 0), vec![step]));
    }
}

/// A sequence in which some do more.
fn stages(maker: &mut Maker<'_>) {
    let (axis, of) = place(maker);
    let some = Few::random(maker.random, true);
    let (input, output) = (maker.partly(), maker.partly());
    maker.forget(&[input, output]);
    let by = *maker.random.pick(&[1, 1, 1, -1, 2]);
    let work = compute("stage", vec![all(input)], vec![all(output)]);
    let pass = transfer(all(output), hop(axis, by, false), all(input));
    let more = compute("more", vec![all(output)], vec![all(output)]);
    let body = match maker.random.below(3) {
        0 => vec![work, when(some.condition(&of, 0), vec![pass])],
        1 => vec![work, when(some.condition(&of, 0), vec![more]), pass],
        _ => vec![when(some.condition(&of, 0), vec![work]), pass],
    };
    maker.push(sequence(body));
}
