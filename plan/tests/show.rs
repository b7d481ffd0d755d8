//! Numbers, conditions, regions and peers as people read them.

use crate::sample::*;
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
    assert_eq!(shown((Expr::Rank + 1) % n()), "(rank + 1) % n");
    assert_eq!(shown(Expr::Rank - (m() - 1)), "rank - (m - 1)");
    assert_eq!(shown(Expr::Rank - m() - 1), "rank - m - 1");
    assert_eq!(shown(2 * (m() / 3) % n()), "2 * (m / 3) % n");
    assert_eq!(shown(Expr::Size * -1), "size * -1");
    assert_eq!(shown(2 * (m() + 1).min(n()).max(0)), "2 * max(min(m + 1, n), 0)");
    assert_eq!(shown(Expr::element(ParamId(1), i() + 1)), "sizes[i + 1]");
    assert_eq!(shown(Expr::Coordinate(AxisId(0))), "rank.n");
    assert_eq!(shown(Expr::Param(ParamId(9))), "param#9");
}

#[test]
fn conditions() {
    let shown = |condition: Condition| ring().show(&condition);
    let (a, b) = (|| Expr::Rank.lt(2), || m().ne(Expr::Param(ParamId(2)) + 1));
    assert_eq!(shown(a()), "rank < 2");
    assert_eq!(shown(Condition::All(vec![a(), b()])), "rank < 2 && m != k + 1");
    let any = Condition::Any(vec![a(), Condition::All(vec![a(), b()])]);
    assert_eq!(shown(any), "rank < 2 || (rank < 2 && m != k + 1)");
    assert_eq!(shown(Condition::Not(Box::new(a()))), "!(rank < 2)");
    assert_eq!(shown(Condition::Not(Box::new(Condition::All(vec![a(), b()])))), {
        "!(rank < 2 && m != k + 1)"
    });
    assert_eq!(shown(Condition::All(vec![])), "true");
    assert_eq!(shown(Condition::Any(vec![])), "false");
    assert_eq!(shown(Condition::All(vec![a()])), "all(rank < 2)");
}

#[test]
fn regions() {
    let shown = |region: Region| plan().show(&region);
    assert_eq!(shown(Region::all(BufferId(X))), "x");
    assert_eq!(shown(part(U, m(), 2 * m())), "u[m..2 * m]");
    assert_eq!(shown(Region { index: Some(i()), ..Region::all(BufferId(G)) }), "g[i]");
    assert_eq!(shown(Region { index: Some(i()), ..part(G, 0, 1) }), "g[i][..1]");
    assert_eq!(shown(Region { next: true, ..part(U, 0, m()) }), "u.next[..m]");
    assert_eq!(shown(Region::all(BufferId(9))), "buffer#9");
}

#[test]
fn peers() {
    let shown = |peer: Peer| ring().show(&peer);
    assert_eq!(shown(by(1, true)), "(rank + 1) % n");
    assert_eq!(shown(by(-1, true)), "(rank - 1) % n");
    assert_eq!(shown(by(1, false)), "rank + 1");
    assert_eq!(shown(by(n() - 1, true)), "(rank + n - 1) % n");
    assert_eq!(shown(by(0 - m(), false)), "rank - m");
    assert_eq!(shown(by(0, true)), "rank % n");
    assert_eq!(shown(by(m() % 2, false)), "rank + (m % 2)");
    assert_eq!(shown(Peer::Shift(vec![])), "rank");
    assert_eq!(shown(Peer::Rank((Expr::Rank + 1) % Expr::Size)), "rank((rank + 1) % size)");
    let (condition, then, otherwise) = ((Expr::Rank % 2).eq(0), by(1, false), by(-1, false));
    let cases = Peer::Cases(Box::new(Cases { condition, then, otherwise }));
    assert_eq!(shown(cases), "if rank % 2 == 0 { rank + 1 } else { rank - 1 }");
    let mesh = Peer::Shift(vec![hop(0, 1, true), hop(1, -1, false)]);
    assert_eq!(plan().show(&mesh), "(rank.nodes + 1) % nodes, rank.local - 1");
}

#[test]
fn assignments() {
    let x = || Region::all(BufferId(X));
    let part = |at: i64| part(U, at, at + 1);
    let assigned = |by, of| {
        let place = Place { on: StreamId(0), after: vec![] };
        plan().show_assign(&Assign { to: x(), by, of, place })
    };
    let shown = |by, of: Vec<Region>| assigned(by, of.into_iter().map(Source::own).collect());
    assert_eq!(shown(Reduction::Sum, vec![x(), part(1)]), "x += u[1..2]");
    assert_eq!(shown(Reduction::Sum, vec![part(1), part(2)]), "x = u[1..2] + u[2..3]");
    assert_eq!(shown(Reduction::Prod, vec![x(), part(1), part(2)]), "x *= u[1..2] * u[2..3]");
    assert_eq!(shown(Reduction::Max, vec![x(), part(1)]), "x = max(x, u[1..2])");
    assert_eq!(shown(Reduction::Avg, vec![part(1), part(2)]), "x = avg(u[1..2], u[2..3])");
    assert_eq!(shown(Reduction::Max, vec![part(1)]), "x = u[1..2]");
    let of = |rank: Expr| Source { rank: Peer::Rank(rank), ..Source::own(part(1)) };
    assert_eq!(assigned(Reduction::Sum, vec![of(3.into())]), "x = u[1..2] of 3");
    let two = vec![Source::own(x()), of(0.into())];
    assert_eq!(assigned(Reduction::Sum, two), "x = sum(x, u[1..2] of 0)");
    let each = Each { counter: LoopId(0), from: 0.into(), to: Expr::Size, powers: None };
    let around = vec![Around::Each(each)];
    let all = vec![Source { around, ..of(Expr::Loop(LoopId(0))) }];
    let name = &plan().counters[0].name;
    let wanted = format!("x = max(for {name} in 0..size {{ u[1..2] of {name} }})");
    assert_eq!(assigned(Reduction::Max, all), wanted);
}

#[test]
fn deep() {
    let sum = |depth| (1..depth).fold(Expr::Rank, |sum, _| sum + 1);
    assert_eq!(ring().show(&sum(64)), format!("rank{}", " + 1".repeat(63)));
    assert_eq!(ring().show(&sum(65)), "..");
    // Dropping it would overflow the stack, when an assertion fails too.
    let deep = (0..1_000_000).fold(Expr::Rank.ge(0), |inner, _| Condition::Not(Box::new(inner)));
    let deep = std::mem::ManuallyDrop::new(deep);
    let shown = ring().show(&*deep);
    assert!(shown.starts_with("!!!") && shown.ends_with("..") && shown.len() < 1_000, "{shown}");
}
