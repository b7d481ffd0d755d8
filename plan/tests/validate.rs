//! What is no plan is told, each fault with its place; what is one passes.

use crate::sample::*;
use typed_nccl_plan::ir::*;
use typed_nccl_plan::verdict::ProblemKind;

/// The one problem of the sample after a change.
#[track_caller]
fn one(change: impl FnOnce(&mut Plan)) -> (u32, String) {
    let mut plan = plan();
    change(&mut plan);
    let problems = plan.validate();
    let [problem] = &problems[..] else { panic!("one problem expected: {problems:#?}") };
    assert_eq!(problem.kind, ProblemKind::Malformed);
    assert!(!problem.help.is_empty() && problem.help.iter().all(|help| !help.is_empty()));
    (problem.at.line, problem.title.clone())
}

#[track_caller]
fn told(line: u32, title: &str, change: impl FnOnce(&mut Plan)) {
    assert_eq!(one(change), (line, title.to_owned()));
}

/// Adds a statement at line 99.
fn add(kind: StepKind) -> impl FnOnce(&mut Plan) {
    |plan| plan.steps.push(step(kind, 99))
}

fn send(from: Region, peer: Peer, among: u32) -> StepKind {
    StepKind::Send(Send { from, peer, among: CommunicatorId(among), place: place(0, &[]) })
}

fn next() -> Peer {
    Peer::Shift(vec![hop(1, 1, true)])
}

fn x() -> Region {
    Region::all(BufferId(X))
}

fn bracket(kind: fn(Vec<Step>) -> StepKind, inner: StepKind) -> impl FnOnce(&mut Plan) {
    add(kind(vec![step(inner, 100)]))
}

#[test]
fn well_formed() {
    assert_eq!(plan().validate(), []);
}

#[test]
fn axes() {
    let axis = |extent| Axis { name: "a".to_owned(), extent, at: at(9) };
    told(2, "axis `local` may have 0 ranks", |plan| plan.axes[1].extent = Values::AtLeast(0));
    told(2, "axis `local` may have -1 ranks", |plan| {
        plan.axes[1].extent = Values::OneOf(vec![2, -1]);
    });
    told(2, "axis `local` is one of no numbers", |plan| {
        plan.axes[1].extent = Values::OneOf(vec![]);
    });
    told(2, "axis `local` is from 3 to 2, which is empty", |plan| {
        plan.axes[1].extent = Values::Range(3, 2);
    });
    told(2, "axis `local` is one of 4097 numbers, more than 4096", |plan| {
        plan.axes[1].extent = Values::OneOf((1..=4097).collect());
    });
    told(9, "the plan has 5 axes", |plan| {
        for name in ["b", "c", "d"] {
            plan.axes.push(Axis { name: name.to_owned(), ..axis(Values::Exactly(1)) });
        }
    });
    let bare = Plan {
        axes: vec![],
        params: vec![],
        promises: vec![],
        communicators: vec![],
        buffers: vec![],
        steps: vec![],
        covers: vec![],
        computes: vec![],
        checks: vec![],
        ..plan()
    };
    assert_eq!(bare.validate()[0].title, "the plan has 0 axes");
}

#[test]
fn params() {
    told(3, "parameter `m` is from 2 to 1, which is empty", |plan| {
        plan.params[0].values = Values::Range(2, 1);
    });
    told(
        4,
        "the count of parameter `sizes` mentions `k`, which is not declared before it",
        |plan| {
            plan.params[1].count = Some(Expr::Param(ParamId(2)));
        },
    );
    told(4, "the count of parameter `sizes` mentions the rank", |plan| {
        plan.params[1].count = Some(Expr::Rank + Expr::Coordinate(AxisId(0)));
    });
    told(6, "a promise uses `sizes`, a list, as a number", |plan| {
        plan.promises[0].condition = Expr::Param(ParamId(1)).ge(0);
    });
    told(6, "a promise uses `m`, a number, as a list", |plan| {
        plan.promises[0].condition = Expr::element(ParamId(0), 0).ge(0);
    });
    told(6, "a promise names parameter number 7, and the plan has 3", |plan| {
        plan.promises[0].condition = Expr::Param(ParamId(7)).ge(0);
    });
    told(6, "a promise mentions the rank", |plan| {
        plan.promises[0].condition = Condition::Not(Box::new(Expr::Rank.ge(0)));
    });
    told(6, "a promise mentions `i`, which counts nothing around it", |plan| {
        plan.promises[0].condition = i().ge(0);
    });
    let each = |to| Each { counter: LoopId(0), from: Expr::Int(0), to, powers: None };
    told(6, "the loop around a promise mentions the rank", |plan| {
        plan.promises[0].around = vec![each(Expr::Rank)];
    });
    told(6, "a condition is nested more than 64 deep", |plan| {
        plan.promises[0].around = vec![each(Expr::Size); 65];
    });
}

#[test]
fn counts() {
    told(0, "a run names parameter number 7, and the plan has 3", |plan| {
        plan.counts = vec![ParamId(7)];
    });
    // Its other uses are refused too.
    let problems = Plan { counts: vec![ParamId(0)], ..plan() }.validate();
    let title = "runs pass `m`, which is one number";
    assert!(problems.iter().any(|one| one.title == title), "{problems:#?}");
    let title = "the length of memory depends on numbers that runs pass";
    assert!(problems.iter().any(|one| one.title == title), "{problems:#?}");
}

#[test]
fn communicators() {
    told(11, "communicator `node` has no axes", |plan| {
        plan.communicators[1].axes = vec![];
        plan.steps.truncate(5);
    });
    let order = "communicator `world` does not have its axes in the order of the plan's, each once";
    told(10, order, |plan| plan.communicators[0].axes = vec![AxisId(1), AxisId(0)]);
    told(10, order, |plan| plan.communicators[0].axes = vec![AxisId(0), AxisId(1), AxisId(1)]);
    told(10, "communicator `world` names axis number 4, and the plan has 2", |plan| {
        plan.communicators[0].axes.push(AxisId(4));
    });
}

#[test]
fn buffers() {
    told(20, "the length of window `x` mentions the rank", |plan| {
        (plan.buffers[0].len, plan.buffers[0].window) = (Expr::Rank, true);
    });
    told(20, "the length of buffer `x` mentions `i`, which counts nothing around it", |plan| {
        plan.buffers[0].len = i();
    });
    told(23, "the count of array `g` mentions `i`, which counts nothing around it", |plan| {
        plan.buffers[3].array = Some(Array { count: i(), index: LoopId(0) });
    });
    told(23, "the count of array `g` mentions the rank", |plan| {
        plan.buffers[3].array = Some(Array { count: Expr::Rank, index: LoopId(0) });
    });
    told(23, "the count of array `g` names counter number 3, and the plan has 1", |plan| {
        plan.buffers[3].array = Some(Array { count: m(), index: LoopId(3) });
        plan.buffers[3].len = m();
    });
    told(20, "buffer `x` has 3 copies", |plan| plan.buffers[0].copies = 3);
    told(23, "the name of a type parameter is empty", |plan| {
        plan.buffers[3].element = ElementType::Generic(String::new());
    });
}

#[test]
fn names() {
    told(21, "two buffers are called `x`", |plan| plan.buffers[1].name = "x".to_owned());
    told(27, "two streams are called `net`", |plan| plan.streams[1].name = "net".to_owned());
    told(0, "the name of a plan is empty", |plan| plan.name.clear());
    told(30, "the name of a compute step is empty", |plan| {
        if let StepKind::Compute(this) = &mut plan.steps[0].kind {
            this.name.clear();
        }
    });
    let (line, title) = one(|plan| plan.signals[0].name = "é".repeat(101));
    assert_eq!(line, 24);
    let cut = "é".repeat(50);
    assert_eq!(title, format!("the name of a signal has 202 bytes, more than 200: `{cut}`.."));
}

#[test]
fn regions() {
    told(99, "`g` is an array, and this statement needs one of its buffers", {
        add(send(Region::all(BufferId(G)), next(), 1))
    });
    told(99, "what is sent has an index, and `x` is a single buffer", {
        add(send(Region { index: Some(0.into()), ..x() }, next(), 1))
    });
    told(99, "what is sent is the next copy of `x`, which has one", {
        add(send(Region { next: true, ..x() }, next(), 1))
    });
    told(99, "what is sent names buffer number 9, and the plan has 4", {
        add(send(Region::all(BufferId(9)), next(), 1))
    });
    told(99, "the end of a region mentions `i`, which counts nothing around it", {
        add(send(part(X, 0, i()), next(), 1))
    });
    told(50, "`g` is an array, and this statement needs one of its buffers", |plan| {
        plan.covers[0].region = Region::all(BufferId(G));
    });
}

#[test]
fn peers() {
    told(99, "the peer goes along `local` twice", {
        add(send(x(), Peer::Shift(vec![hop(1, 1, true), hop(1, 1, true)]), 1))
    });
    told(99, "the peer lies along `nodes`, and ranks of `node` do not differ there", {
        add(send(x(), Peer::Shift(vec![hop(0, 1, true)]), 1))
    });
    told(99, "how far the peer is mentions the rank", {
        let by = Expr::Coordinate(AxisId(1));
        add(send(x(), Peer::Shift(vec![Hop { by, ..hop(1, 1, true) }]), 1))
    });
    told(99, "the peer names axis number 5, and the plan has 2", {
        add(send(x(), Peer::Shift(vec![hop(5, 1, true)]), 1))
    });
    let cases =
        |condition, otherwise| Peer::Cases(Box::new(Cases { condition, then: next(), otherwise }));
    told(99, "the peer lies along `nodes`, and ranks of `node` do not differ there", {
        let other = Peer::Shift(vec![hop(0, 1, true)]);
        add(send(x(), cases(Expr::Rank.eq(0), other), 1))
    });
    told(99, "a peer has cases more than 64 deep", {
        let deep = (0..64).fold(next(), |inner, _| cases(Expr::Rank.eq(0), inner));
        add(send(x(), deep, 1))
    });
    told(99, "this step names communicator number 3, and the plan has 2", {
        add(send(x(), next(), 3))
    });
}

#[test]
fn statements() {
    told(100, "a compute step cannot be in a group", bracket(StepKind::Group, compute()));
    told(100, "a group cannot be in a group", bracket(StepKind::Group, StepKind::Group(vec![])));
    told(100, "a sequence cannot be in a group", {
        bracket(StepKind::Group, repeat(0, 1, vec![step(StepKind::Sequence(vec![]), 100)]))
    });
    told(100, "a loop cannot be in a sequence", bracket(StepKind::Sequence, repeat(0, 1, vec![])));
    told(100, "a send cannot be in a sequence", bracket(StepKind::Sequence, send(x(), next(), 1)));
    told(100, "a transfer in a sequence does not go along one open axis", {
        bracket(StepKind::Sequence, transfer(true))
    });
    told(100, "a transfer cannot be in a loop whose bounds mention the rank", |plan| {
        let inner = repeat(0, 1, vec![step(transfer(true), 100)]);
        let StepKind::Loop(inner) = inner else { unreachable!() };
        plan.counters.push(named("j", 29));
        let inner = StepKind::Loop(Loop { counter: LoopId(1), ..inner });
        plan.steps.push(step(repeat(0, Expr::Rank, vec![step(inner, 99)]), 99));
    });
    told(100, "a loop counts with `i` inside a loop that does", |plan| {
        let inner = step(repeat(0, 1, vec![]), 100);
        plan.steps.push(step(repeat(0, 1, vec![inner]), 99));
    });
    told(100, "a loop counts with `i` inside a loop that does", |plan| {
        plan.counters.push(named("i", 29));
        let StepKind::Loop(inner) = repeat(0, 1, vec![]) else { unreachable!() };
        let inner = StepKind::Loop(Loop { counter: LoopId(1), ..inner });
        plan.steps.push(step(repeat(0, 1, vec![step(inner, 100)]), 99));
    });
    told(99, "the end of a loop mentions `i`, which counts nothing around it", {
        add(repeat(0, i(), vec![]))
    });
    told(99, "`after` names stream number 8, and the plan has 2", |plan| {
        let kind = StepKind::Compute(Compute {
            name: "w".to_owned(),
            arguments: vec![],
            reads: vec![],
            writes: vec![],
            computes: Vec::new(),
            place: place(0, &[8]),
        });
        plan.steps.push(step(kind, 99));
    });
    told(34, "this step names signal number 2, and the plan has 2", |plan| {
        if let StepKind::Wait(this) = &mut plan.steps[4].kind {
            this.signals[0].signal = SignalId(2);
        }
    });
    // Loops on every rank alike around transfers, and uneven ones around halves, may stand.
    let mut fine = plan();
    let half = step(send(x(), next(), 1), 99);
    fine.steps.push(step(repeat(0, Expr::Rank, vec![half]), 98));
    fine.steps.push(step(repeat(0, m(), vec![step(transfer(true), 99)]), 98));
    assert_eq!(fine.validate(), []);
}

/// The buffers of an array may differ in length, so a range is in one of them.
#[test]
fn a_range_of_a_whole_array() {
    let reads = |range| {
        let (arguments, writes, computes) = (vec![], vec![], vec![]);
        let reads = vec![Region { range, ..Region::all(BufferId(G)) }];
        let name = "apply".to_owned();
        let place = place(0, &[]);
        add(StepKind::Compute(Compute { name, arguments, reads, writes, computes, place }))
    };
    let mut fine = plan();
    reads(None)(&mut fine);
    assert_eq!(fine.validate(), []);
    let range = Some((Expr::Int(0), Expr::Int(1)));
    let title = "`g` is an array, and a range needs one of its buffers";
    told(99, title, reads(range));
}

#[test]
fn assignments() {
    let all = |buffer: u32| Region::all(BufferId(buffer));
    let assign = |to: Region, by: Reduction, of: Vec<Region>| {
        let of = of.into_iter().map(Source::own).collect();
        add(StepKind::Assign(Assign { to, by, of, place: place(0, &[]) }))
    };
    let one = "`x` is computed of 0 regions, and must be of 1 to 16";
    told(99, one, assign(all(X), Reduction::Sum, vec![]));
    let many = "`x` is computed of 17 regions, and must be of 1 to 16";
    told(99, many, assign(all(X), Reduction::Sum, vec![all(X); 17]));
    let array = "`g` is an array, and this statement needs one of its buffers";
    told(99, array, |plan| {
        plan.buffers[G as usize].element = plan.buffers[X as usize].element.clone();
        assign(all(X), Reduction::Sum, vec![all(G)])(plan);
    });
    told(99, "`x` holds f32, and `u` holds i32", |plan| {
        plan.buffers[X as usize].element = ElementType::F32;
        plan.buffers[U as usize].element = ElementType::I32;
        assign(all(X), Reduction::Sum, vec![all(X), all(U)])(plan);
    });
    told(99, "`x` holds i64, which has no average: it would be truncated", |plan| {
        plan.buffers[X as usize].element = ElementType::I64;
        assign(all(X), Reduction::Avg, vec![all(X), all(X)])(plan);
    });
    told(98, "an assignment cannot be in a group", |plan| {
        let (to, of) = (all(X), vec![Source::own(all(X))]);
        let kind = StepKind::Assign(Assign { to, by: Reduction::Sum, of, place: place(0, &[]) });
        plan.steps.push(step(StepKind::Group(vec![step(kind, 98)]), 97));
    });
}

#[test]
fn limits() {
    told(0, "the plan has more than 100000 steps", |plan| {
        plan.steps = vec![Step { at: at(0), ..plan.steps[0].clone() }; 100_001];
    });
    told(0, "the plan has 65537 signals, more than 65536", |plan| {
        plan.signals = vec![named("s", 0); 65_537];
    });
    let parts = "the plan's numbers, conditions and regions have more than 1000000 parts";
    told(30, parts, |plan| {
        if let StepKind::Compute(this) = &mut plan.steps[0].kind {
            this.arguments = vec![Expr::Rank; 1_000_001];
        }
    });
    let computes = |reads: Vec<Region>, equations: Vec<Equation>| {
        move |plan: &mut Plan| {
            let kind = StepKind::Compute(Compute {
                name: "w".to_owned(),
                arguments: vec![],
                reads: reads.clone(),
                writes: vec![x()],
                computes: equations.clone(),
                place: place(0, &[]),
            });
            plan.steps.push(step(kind, 99));
        }
    };
    let sum = |of: &[u32]| Equation { to: 0, by: Reduction::Sum, of: of.to_vec() };
    let title = "what a step computes is not of what it reads and writes";
    told(99, title, computes(vec![x()], vec![sum(&[1])]));
    told(99, title, computes(vec![x()], vec![sum(&[])]));
    told(99, title, computes(vec![x()], vec![Equation { to: 1, ..sum(&[0]) }]));
    let title = "a step says twice what it leaves in `x`";
    told(99, title, computes(vec![x()], vec![sum(&[0]), sum(&[0, 0])]));
    told(99, "this step is inside more than 63 others", |plan| {
        let nest = |inner, line| {
            let condition = Condition::All(vec![]);
            step(StepKind::When(When { condition, body: vec![inner] }), line)
        };
        let deep = (0..64).fold(step(compute(), 99), |inner, _| nest(inner, 98));
        plan.steps.push(deep);
    });
    let sum = |depth: i64| (1..depth).fold(Expr::Rank, |sum, _| sum + 1);
    told(30, "a number is nested more than 64 deep", |plan| {
        if let StepKind::Compute(this) = &mut plan.steps[0].kind {
            this.arguments = vec![sum(64), sum(65)];
        }
    });
    told(6, "a condition is nested more than 64 deep", |plan| {
        plan.promises[0].condition =
            (0..64).fold(m().ge(0), |inner, _| Condition::Not(Box::new(inner)));
    });
    told(20, "a number has more than 4096 parts", |plan| {
        plan.buffers[0].len = (0..12).fold(m(), |x, _| x.clone().min(x));
    });
    // A hundred problems say enough.
    let mut wrong = plan();
    wrong.steps = vec![step(send(x(), next(), 3), 1); 200];
    assert_eq!(wrong.validate().len(), 100);
}
