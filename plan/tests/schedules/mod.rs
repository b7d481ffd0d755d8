//! Schedules written by hand, as a lowering would make them: data for pictures and estimates.

use typed_nccl_plan::build::{Generic, PlanBuilder, at, chain, ring};
use typed_nccl_plan::ir::{
    CollectiveKind, CommunicatorId, Location, Plan, Reduction, SignalId, StreamId,
};
use typed_nccl_plan::lower::{Call, Elements, Event, Operation, RankSchedule, Schedule, Work};
use typed_nccl_plan::verdict::Sizes;

/// A plan and a schedule of it.
pub(crate) struct Sketch {
    pub plan: Plan,
    pub schedule: Schedule,
}

pub(crate) const NET: u32 = 0;
pub(crate) const CMP: u32 = 1;
const WORLD: CommunicatorId = CommunicatorId(0);

impl Sketch {
    pub(crate) fn new(plan: PlanBuilder, extents: &[i64], params: &[i64], text: &str) -> Self {
        let plan = plan.unchecked().expect("no handle of another builder");
        let sizes = Sizes {
            extents: extents.to_vec(),
            params: params.iter().map(|param| vec![*param]).collect(),
            text: text.to_owned(),
        };
        let ranks = vec![RankSchedule::default(); extents.iter().product::<i64>() as usize];
        let (warm_ups, reasons) = (Vec::new(), Vec::new());
        let plan_name = plan.name.clone();
        let (why_waits, why_kernels) = Default::default();
        let schedule =
            Schedule { plan: plan_name, sizes, ranks, warm_ups, reasons, why_waits, why_kernels };
        Self { plan, schedule }
    }

    pub(crate) fn ranks(&self) -> u32 {
        self.schedule.ranks.len() as u32
    }

    /// A call on `stream` after the last call of the streams `after`.
    pub(crate) fn call(&mut self, rank: u32, stream: u32, after: &[u32], line: u32, work: Work) {
        let of = &mut self.schedule.ranks[rank as usize];
        let mut waits = Vec::new();
        for stream in after {
            let last = of.calls.iter_mut().rev().find(|call| call.stream == StreamId(*stream));
            let Some(last) = last else { continue };
            let event = *last.records.get_or_insert_with(|| {
                of.events += 1;
                Event(of.events - 1)
            });
            waits.push(event);
        }
        let from = vec![Location::new(line, 5)];
        let (stream, carried) = (StreamId(stream), Vec::new());
        of.calls.push(Call { stream, waits, carried, work, records: None, from });
    }

    pub(crate) fn group(
        &mut self,
        rank: u32,
        after: &[u32],
        line: u32,
        operations: Vec<Operation>,
    ) {
        if !operations.is_empty() {
            self.call(rank, NET, after, line, Work::Group(operations));
        }
    }
}

pub(crate) fn part(buffer: u32, index: u32, start: u64, end: u64) -> Elements {
    Elements { buffer, index, start, end, ..Elements::default() }
}

pub(crate) fn send(from: Elements, peer: u32) -> Operation {
    Operation::Send { from, peer, among: WORLD }
}

pub(crate) fn receive(to: Elements, peer: u32) -> Operation {
    Operation::Receive { to, peer, among: WORLD }
}

pub(crate) fn put(from: Elements, peer: u32, to: Elements, signal: u32) -> Operation {
    Operation::Put { from, peer, to, signal: Some(SignalId(signal)), among: WORLD }
}

pub(crate) fn wait(signals: &[(u32, u32)]) -> Operation {
    let signals = signals.iter().map(|&(signal, peer)| (SignalId(signal), peer, 1)).collect();
    Operation::Wait { signals, among: WORLD }
}

pub(crate) fn all_reduce(x: Elements, among: u32) -> Operation {
    let kind = CollectiveKind::AllReduce(Reduction::Sum);
    collective(kind, among, x, x)
}

pub(crate) fn collective(
    kind: CollectiveKind<u32>,
    among: u32,
    send: Elements,
    recv: Elements,
) -> Operation {
    let (send, recv) = (Some(send), Some(recv));
    Operation::Collective { kind, among: CommunicatorId(among), send, recv, in_place: true }
}

pub(crate) fn compute(name: &str, argument: Option<i64>) -> Work {
    let arguments = argument.into_iter().collect();
    let (reads, writes, regions) = (Vec::new(), Vec::new(), Default::default());
    Work::Compute { name: name.to_owned(), arguments, reads, writes, regions }
}

/// Every rank sends to the next one.
pub(crate) fn ring_exchange(n: u32, len: u64) -> Sketch {
    let mut plan = PlanBuilder::new("ring exchange");
    plan.ranks(1..);
    let count = plan.param("len", 1..);
    let a = plan.input::<f32>("a", count);
    let b = plan.output::<f32>("b", count);
    let net = plan.stream("net");
    plan.on(net).transfer(a, ring(1), b);
    let text = format!("n = {n}, len = {len}");
    let mut sketch = Sketch::new(plan, &[i64::from(n)], &[len as i64], &text);
    for r in 0..n {
        let (a, b) = (part(0, 0, 0, len), part(1, 0, 0, len));
        sketch.group(r, &[], 9, vec![send(a, (r + 1) % n), receive(b, (r + n - 1) % n)]);
    }
    sketch
}

/// Edges put into the neighbours' windows while the interior is computed.
pub(crate) fn halo(n: u32) -> Sketch {
    let mut plan = PlanBuilder::new("halo");
    plan.ranks(3..);
    let len = plan.param("m", 1..);
    plan.window().swapped().in_out::<Generic>("u", len);
    plan.signal("hi");
    plan.signal("lo");
    let (_, cmp) = (plan.stream("net"), plan.stream("cmp"));
    plan.on(cmp).run("interior");
    let text = format!("n = {n}, m = 16");
    let mut sketch = Sketch::new(plan, &[i64::from(n)], &[16], &text);
    let u = |start, end| part(0, 0, start, end);
    for r in 0..n {
        let (left, right) = ((r + n - 1) % n, (r + 1) % n);
        let puts = vec![put(u(2, 4), left, u(14, 16), 0), put(u(12, 14), right, u(0, 2), 1)];
        sketch.group(r, &[], 21, puts);
        sketch.call(r, CMP, &[], 23, compute("interior", None));
        sketch.group(r, &[], 24, vec![wait(&[(0, right), (1, left)])]);
        sketch.call(r, CMP, &[NET], 25, compute("edges", None));
    }
    sketch
}

/// Microbatches go forward through a chain.
pub(crate) fn pipeline(p: u32, mb: u32) -> Sketch {
    let mut sketch = microbatches("pipeline forward", p, mb);
    let k = |buffer, i| part(buffer, i, 0, 4);
    for r in 0..p {
        for i in 0..mb {
            if r > 0 {
                sketch.group(r, &[], 12, vec![receive(k(0, i), r - 1)]);
            }
            sketch.call(r, CMP, &[NET], 11, compute("fwd", Some(i.into())));
            if r + 1 < p {
                sketch.group(r, &[CMP], 12, vec![send(k(1, i), r + 1)]);
            }
        }
    }
    sketch
}

/// One forward, one backward.
pub(crate) fn one_f1b(p: u32, mb: u32) -> Sketch {
    let mut sketch = microbatches("1F1B", p, mb);
    let k = |buffer, i| part(buffer, i, 0, 4);
    let (act, out, grad, gin) = (0, 1, 2, 3);
    for r in 0..p {
        let next = |op| (r + 1 < p).then_some(op);
        let last = |op| (r > 0).then_some(op);
        let group = |ops: &[Option<Operation>]| ops.iter().flatten().cloned().collect::<Vec<_>>();
        let w = p - 1 - r;
        for i in 0..w {
            sketch.group(r, &[], 30, group(&[last(receive(k(act, i), r.wrapping_sub(1)))]));
            sketch.call(r, CMP, &[NET], 31, compute("fwd", Some(i.into())));
            sketch.group(r, &[CMP], 32, group(&[next(send(k(out, i), r + 1))]));
        }
        sketch.group(r, &[], 34, group(&[last(receive(k(act, w), r.wrapping_sub(1)))]));
        for j in 0..mb - w {
            sketch.call(r, CMP, &[NET], 36, compute("fwd", Some((w + j).into())));
            let down = [next(send(k(out, w + j), r + 1)), next(receive(k(grad, j), r + 1))];
            sketch.group(r, &[CMP], 38, group(&down));
            sketch.call(r, CMP, &[NET], 41, compute("bwd", Some(j.into())));
            let more = (j + 1 < mb - w)
                .then(|| last(receive(k(act, w + j + 1), r.wrapping_sub(1))))
                .flatten();
            let up = [last(send(k(gin, j), r.wrapping_sub(1))), more];
            sketch.group(r, &[CMP], 43, group(&up));
        }
        for j in mb - w..mb {
            sketch.group(r, &[], 50, group(&[next(receive(k(grad, j), r + 1))]));
            sketch.call(r, CMP, &[NET], 51, compute("bwd", Some(j.into())));
            sketch.group(r, &[CMP], 52, group(&[last(send(k(gin, j), r.wrapping_sub(1)))]));
        }
    }
    sketch
}

fn microbatches(name: &str, p: u32, mb: u32) -> Sketch {
    let mut plan = PlanBuilder::new(name);
    plan.ranks(2..);
    let (count, k) = (plan.param("mb", 1..), plan.param("k", 1..));
    plan.array(count).in_out::<Generic>("act", |_| k);
    let out = plan.array(count).output::<Generic>("out", |_| k);
    plan.array(count).in_out::<Generic>("grad", |_| k);
    plan.array(count).output::<Generic>("gin", |_| k);
    let (net, _) = (plan.stream("net"), plan.stream("cmp"));
    plan.on(net).send(out.at(0), chain(1));
    let text = format!("p = {p}, mb = {mb}, k = 4");
    Sketch::new(plan, &[i64::from(p)], &[mb.into(), 4], &text)
}

/// Within each node, then between them, then within each again.
pub(crate) fn hierarchical(nodes: u32, local: u32, len: u64) -> Sketch {
    let mut plan = PlanBuilder::new("hierarchical all-reduce");
    let axes = [plan.axis("nodes", 1..), plan.axis("local", 1..)];
    let count = plan.param("len", 1..);
    let x = plan.in_out::<f32>("x", count);
    plan.communicator("node", [axes[1]]);
    plan.communicator("rail", [axes[0]]);
    let net = plan.stream("net");
    plan.on(net).all_reduce_in_place(x, Reduction::Sum);
    let text = format!("nodes = {nodes}, local = {local}, len = {len}");
    let extents = [i64::from(nodes), i64::from(local)];
    let mut sketch = Sketch::new(plan, &extents, &[len as i64], &text);
    let chunk = len / u64::from(local);
    for r in 0..nodes * local {
        let mine = u64::from(r % local) * chunk;
        let (x, s) = (part(0, 0, 0, len), part(0, 0, mine, mine + chunk));
        let scatter = CollectiveKind::ReduceScatter(Reduction::Sum);
        sketch.group(r, &[], 6, vec![collective(scatter, 1, x, s)]);
        sketch.group(r, &[], 7, vec![all_reduce(s, 2)]);
        sketch.group(r, &[], 8, vec![collective(CollectiveKind::AllGather, 1, s, x)]);
    }
    sketch
}

/// Gradients, reduced one by one or in one group.
pub(crate) fn gradients(n: u32, many: u32, len: u64, grouped: bool) -> Sketch {
    let mut plan = PlanBuilder::new("gradients");
    plan.ranks(1..);
    let (count, k) = (plan.param("many", 1..), plan.param("len", 1..));
    let g = plan.array(count).in_out::<f32>("g", |_| k);
    let net = plan.stream("net");
    plan.on(net).send(g.at(0), at(0));
    let text = format!("n = {n}, many = {many}, len = {len}");
    let mut sketch = Sketch::new(plan, &[n.into()], &[many.into(), len as i64], &text);
    let all: Vec<Operation> = (0..many).map(|i| all_reduce(part(0, i, 0, len), 0)).collect();
    for r in 0..n {
        if grouped {
            sketch.group(r, &[], 4, all.clone());
        } else {
            all.iter().for_each(|one| sketch.group(r, &[], 4, vec![one.clone()]));
        }
    }
    sketch
}

/// Communication and compute side by side, or one after the other.
pub(crate) fn overlap(n: u32, len: u64, beside: bool) -> Sketch {
    let mut sketch = gradients(n, 1, len, true);
    for r in 0..n {
        sketch.call(r, CMP, if beside { &[] } else { &[NET] }, 7, compute("backward", None));
    }
    sketch
}
