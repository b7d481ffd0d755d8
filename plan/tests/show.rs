//! Numbers, conditions, regions and peers as people read them.

mod sample;

use sample::*;
use typed_nccl_plan::ir::*;

fn ring() -> Plan {
    let mut plan = plan();
    plan.axes = vec![Axis { name: "n".to_owned(), extent: Values::AtLeast(1), at: at(1) }];
    plan
}

fn n() -> Expr {
    Expr::Extent(AxisId(0))
}

fn by(by: impl Into<Expr>, wrap: bool) -> Peer {
    Peer::Shift(vec![Hop { axis: AxisId(0), by: by.into(), wrap }])
}

#[test]
fn numbers() {
    let shown = |expr: Expr| ring().show(&expr);
    assert_eq!(shown((Expr::Rank + 1) % n()), "(r + 1) % n");
    assert_eq!(shown(Expr::Rank - (m() - 1)), "r - (m - 1)");
    assert_eq!(shown(Expr::Rank - m() - 1), "r - m - 1");
    assert_eq!(shown(2 * (m() / 3) % n()), "2 * (m / 3) % n");
    assert_eq!(shown(Expr::Size * -1), "size * -1");
    assert_eq!(shown(2 * (m() + 1).min(n()).max(0)), "2 * max(min(m + 1, n), 0)");
    assert_eq!(shown(Expr::Element(ParamId(1), Box::new(i() + 1))), "sizes[i + 1]");
    assert_eq!(shown(Expr::Coordinate(AxisId(0))), "r.n");
    assert_eq!(shown(Expr::Param(ParamId(9))), "param#9");
}

#[test]
fn conditions() {
    let shown = |condition: Condition| ring().show(&condition);
    let (a, b) = (|| Expr::Rank.lt(2), || m().ne(Expr::Param(ParamId(2)) + 1));
    assert_eq!(shown(a()), "r < 2");
    assert_eq!(shown(Condition::All(vec![a(), b()])), "r < 2 && m != k + 1");
    let any = Condition::Any(vec![a(), Condition::All(vec![a(), b()])]);
    assert_eq!(shown(any), "r < 2 || (r < 2 && m != k + 1)");
    assert_eq!(shown(Condition::Not(Box::new(a()))), "!(r < 2)");
    assert_eq!(shown(Condition::Not(Box::new(Condition::All(vec![a(), b()])))), {
        "!(r < 2 && m != k + 1)"
    });
    assert_eq!(shown(Condition::All(vec![])), "true");
    assert_eq!(shown(Condition::Any(vec![])), "false");
    assert_eq!(shown(Condition::All(vec![a()])), "all(r < 2)");
}

#[test]
fn regions() {
    let shown = |region: Region| plan().show(&region);
    assert_eq!(shown(Region::all(BufferId(X))), "x");
    assert_eq!(shown(part(U, m(), 2 * m())), "u[m .. 2 * m]");
    assert_eq!(shown(Region { index: Some(i()), ..Region::all(BufferId(G)) }), "g[i]");
    assert_eq!(shown(Region { index: Some(i()), ..part(G, 0, 1) }), "g[i][0 .. 1]");
    assert_eq!(shown(Region { next: true, ..part(U, 0, m()) }), "u.next[0 .. m]");
    assert_eq!(shown(Region::all(BufferId(9))), "buffer#9");
}

#[test]
fn peers() {
    let shown = |peer: Peer| ring().show(&peer);
    assert_eq!(shown(by(1, true)), "(r + 1) % n");
    assert_eq!(shown(by(-1, true)), "(r - 1) % n");
    assert_eq!(shown(by(1, false)), "r + 1");
    assert_eq!(shown(by(n() - 1, true)), "(r + n - 1) % n");
    assert_eq!(shown(by(0 - m(), false)), "r - m");
    assert_eq!(shown(by(0, true)), "r % n");
    assert_eq!(shown(by(m() % 2, false)), "r + (m % 2)");
    assert_eq!(shown(Peer::Shift(vec![])), "r");
    assert_eq!(shown(Peer::Rank((Expr::Rank + 1) % Expr::Size)), "(r + 1) % size");
    let mesh = Peer::Shift(vec![hop(0, 1, true), hop(1, -1, false)]);
    assert_eq!(plan().show(&mesh), "(r.nodes + 1) % nodes, r.local - 1");
}

#[test]
fn names() {
    let mut plan = ring();
    plan.params[0].name = "n".to_owned();
    plan.params[2].name = "two words".to_owned();
    plan.counters[0].name = "size".to_owned();
    let sum = n() + m() + Expr::Param(ParamId(2)) + i();
    assert_eq!(plan.show(&sum), "axis.n + param.n + `two words` + counter.size");
    plan.buffers[0].name = "`".to_owned();
    assert_eq!(plan.show(&Region::all(BufferId(X))), r"`\``");
}

#[test]
fn deep() {
    // Dropping it would overflow the stack, when an assertion fails too.
    let deep = (0..1_000_000).fold(Expr::Rank, |sum, _| sum + 1);
    let peer = std::mem::ManuallyDrop::new(by(deep, true));
    let shown = ring().show(&*peer);
    assert!(shown.starts_with("(.. + .. + 1 + 1") && shown.ends_with(" + 1) % n"), "{shown}");
    let Peer::Shift(hops) = &*peer else { unreachable!() };
    let shown = ring().show(&hops[0].by);
    assert!(shown.starts_with(".. + 1 + 1") && shown.len() < 1_000, "{shown}");
}
