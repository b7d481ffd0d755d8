//! A plan as text, for people.

use std::fmt::Write;

use typed_nccl_plan::ir::{
    CollectiveKind, Comparison, Compute, Condition, Each, Expr, Peer, Place, Plan, Region, Source,
    Step, StepKind,
};

/// The plan, line by line.
pub fn dump(plan: &Plan) -> String {
    let mut text = String::new();
    let names = Names(plan);
    let axes = plan.axes.iter().map(|axis| format!("{}: {:?}", axis.name, axis.extent));
    let axes: Vec<String> = axes.collect();
    let mut line = |of: String| {
        text.push_str(&of);
        text.push('\n');
    };
    line(format!(
        "plan({}) {:?} for NCCL {}{}, order {:?}",
        axes.join(", "),
        plan.launch,
        plan.target,
        if plan.replayed { ", replayed" } else { "" },
        plan.order,
    ));
    for param in &plan.params {
        line(format!("  param {}: {:?} {:?}", param.name, param.values, param.count));
    }
    for promise in &plan.promises {
        let around: String =
            promise.around.iter().map(|each| format!("{} ", names.each(each))).collect();
        line(format!("  where {around}{}", names.condition(&promise.condition)));
    }
    for communicator in &plan.communicators {
        let axes = communicator.axes.iter().map(|axis| plan.axes[axis.index()].name.as_str());
        let axes: Vec<&str> = axes.collect();
        line(format!("  communicator {}[{}]", communicator.name, axes.join(", ")));
    }
    for buffer in &plan.buffers {
        let array = buffer.array.as_ref().map(|array| format!(" x {}", names.expr(&array.count)));
        line(format!(
            "  {}{} {}: [{}; {}]{}{}",
            if buffer.window { "window " } else { "" },
            format!("{:?}", buffer.role).to_lowercase(),
            buffer.name,
            buffer.element,
            names.expr(&buffer.len),
            array.unwrap_or_default(),
            if buffer.copies > 1 { ", two copies" } else { "" },
        ));
    }
    for coverage in &plan.covers {
        line(format!("  covers {}", names.region(&coverage.region)));
    }
    for post in &plan.computes {
        let (send, recv) = (names.region(&post.send), names.region(&post.recv));
        line(format!("  computes {} {send} => {recv}", names.kind(&post.kind)));
    }
    for claim in &plan.claims {
        line(format!("  claims {claim:?}"));
    }
    names.steps(&plan.steps, 1, &mut text);
    text
}

struct Names<'a>(&'a Plan);

impl Names<'_> {
    fn steps(&self, steps: &[Step], depth: usize, text: &mut String) {
        for step in steps {
            let indent = "  ".repeat(depth);
            let (head, body) = self.step(step);
            let _ = writeln!(text, "{indent}{head}");
            if let Some(body) = body {
                self.steps(body, depth + 1, text);
            }
        }
    }

    fn step<'s>(&self, step: &'s Step) -> (String, Option<&'s [Step]>) {
        match &step.kind {
            StepKind::Compute(one) => (self.compute(one), None),
            StepKind::Assign(one) => {
                let source = |source: &Source| {
                    let around: String =
                        source.around.iter().map(|one| format!("{one:?} ")).collect();
                    let (region, rank) = (self.region(&source.region), self.peer(&source.rank));
                    let of = if source.is_own() { String::new() } else { format!(" @ {rank}") };
                    format!("{around}{region}{of}")
                };
                let of: Vec<String> = one.of.iter().map(source).collect();
                let (to, of) = (self.region(&one.to), of.join(", "));
                (format!("{to} = {}({of}) {}", one.by, self.place(&one.place)), None)
            }
            StepKind::Here(_) => ("here ..".to_owned(), None),
            StepKind::Group(body) => ("group".to_owned(), Some(body)),
            StepKind::Sequence(body) => ("sequence".to_owned(), Some(body)),
            StepKind::When(one) => {
                (format!("when {}", self.condition(&one.condition)), Some(&one.body))
            }
            StepKind::Loop(one) => {
                let counter = self.expr(&Expr::Loop(one.counter));
                let (from, to) = (self.expr(&one.from), self.expr(&one.to));
                let back = if one.reverse { " downwards" } else { "" };
                let powers =
                    one.powers.as_ref().map(|base| format!("powers of {} in ", self.expr(base)));
                let powers = powers.unwrap_or_default();
                (format!("for {counter} in {powers}{from}..{to}{back}"), Some(&one.body))
            }
            kind => (self.communication(kind), None),
        }
    }

    fn compute(&self, one: &Compute) -> String {
        let region = |region: &Region| self.region(region);
        let list = |list: &[Region]| list.iter().map(region).collect::<Vec<_>>().join(", ");
        let (reads, writes) = (list(&one.reads), list(&one.writes));
        let place = self.place(&one.place);
        let list = |list: &[u32]| format!("{list:?}");
        let computes = one.computes.iter().map(|equation| {
            format!(" computes {} = {} {}", equation.to, equation.by, list(&equation.of))
        });
        let computes: String = computes.collect();
        format!("run {}(read {reads}, write {writes}){computes} {place}", one.name)
    }

    fn communication(&self, kind: &StepKind) -> String {
        let region = |region: &Region| self.region(region);
        let communicator = |id: typed_nccl_plan::ir::CommunicatorId| {
            let communicator = self.0.communicators.get(id.index());
            format!("via {}", communicator.map_or("?", |one| one.name.as_str()))
        };
        let signal = |id: typed_nccl_plan::ir::SignalId| {
            self.0.signals.get(id.index()).map_or("?", |one| one.name.as_str())
        };
        match kind {
            StepKind::Collective(one) => format!(
                "{} {} => {} {} {}",
                self.kind(&one.kind),
                region(&one.send),
                region(&one.recv),
                communicator(one.among),
                self.place(&one.place)
            ),
            StepKind::Transfer(one) => format!(
                "{} @ r -> {} @ {} {} {}",
                region(&one.from),
                region(&one.to),
                self.peer(&one.peer),
                communicator(one.among),
                self.place(&one.place)
            ),
            StepKind::Send(one) => format!(
                "send {} to {} {} {}",
                region(&one.from),
                self.peer(&one.peer),
                communicator(one.among),
                self.place(&one.place)
            ),
            StepKind::Receive(one) => format!(
                "receive {} from {} {} {}",
                region(&one.to),
                self.peer(&one.peer),
                communicator(one.among),
                self.place(&one.place)
            ),
            StepKind::Put(one) => format!(
                "put {} -> {} @ {} signal {} {} {}",
                region(&one.from),
                region(&one.to),
                self.peer(&one.peer),
                one.signal.map_or("none", signal),
                communicator(one.among),
                self.place(&one.place)
            ),
            StepKind::Signal(one) => format!(
                "signal {} at {} {} {}",
                signal(one.signal),
                self.peer(&one.peer),
                communicator(one.among),
                self.place(&one.place)
            ),
            StepKind::Wait(one) => {
                let list = one.signals.iter().map(|one| {
                    let (peer, times) = (self.peer(&one.peer), self.expr(&one.times));
                    format!("{} from {peer} x {times}", signal(one.signal))
                });
                let list: Vec<String> = list.collect();
                let place = self.place(&one.place);
                format!("wait {} {} {place}", list.join(", "), communicator(one.among))
            }
            _ => String::new(),
        }
    }

    fn place(&self, place: &Place) -> String {
        let mut text = format!("on s{}", place.on.0);
        for (at, after) in place.after.iter().enumerate() {
            let _ = write!(text, "{}s{}", if at == 0 { " after " } else { ", " }, after.0);
        }
        text
    }

    fn kind(&self, kind: &CollectiveKind) -> String {
        let mut text = kind.name().to_string();
        if let Some(by) = kind.reduction() {
            let _ = write!(text, "({by})");
        }
        if let Some(root) = kind.root() {
            let _ = write!(text, "[root {}]", self.expr(root));
        }
        text
    }

    fn region(&self, region: &Region) -> String {
        let buffer = self.0.buffers.get(region.buffer.index());
        let mut text = buffer.map_or("?", |one| one.name.as_str()).to_owned();
        if let Some(index) = &region.index {
            let _ = write!(text, "[{}]", self.expr(index));
        }
        if region.next {
            text.push_str(".next");
        }
        if let Some((from, to)) = &region.range {
            let _ = write!(text, "[{}..{}]", self.expr(from), self.expr(to));
        }
        text
    }

    fn peer(&self, peer: &Peer) -> String {
        let hops = match peer {
            Peer::Cases(cases) => {
                let (then, otherwise) = (self.peer(&cases.then), self.peer(&cases.otherwise));
                return format!(
                    "if {} {{ {then} }} else {{ {otherwise} }}",
                    self.condition(&cases.condition)
                );
            }
            Peer::Rank(number) => return format!("rank {}", self.expr(number)),
            Peer::Shift(hops) => hops,
        };
        let hops = hops.iter().map(|hop| {
            let axis = self.0.axes.get(hop.axis.index()).map_or("?", |axis| axis.name.as_str());
            let open = if hop.wrap { "" } else { " open" };
            format!("{axis} + {}{open}", self.expr(&hop.by))
        });
        format!("({})", hops.collect::<Vec<_>>().join(", "))
    }

    fn each(&self, each: &Each) -> String {
        let counter = self.expr(&Expr::Loop(each.counter));
        format!("for {counter} in {}..{}", self.expr(&each.from), self.expr(&each.to))
    }

    fn condition(&self, condition: &Condition) -> String {
        let list = |list: &[Condition], by: &str| {
            let list: Vec<String> = list.iter().map(|one| self.condition(one)).collect();
            format!("({})", list.join(by))
        };
        match condition {
            Condition::Compare(a, how, b) => {
                let how = match how {
                    Comparison::Equal => "==",
                    Comparison::NotEqual => "!=",
                    Comparison::Less => "<",
                    Comparison::LessOrEqual => "<=",
                    Comparison::Greater => ">",
                    Comparison::GreaterOrEqual => ">=",
                };
                format!("{} {how} {}", self.expr(a), self.expr(b))
            }
            Condition::All(all) => list(all, " and "),
            Condition::Any(any) => list(any, " or "),
            Condition::Not(one) => format!("not ({})", self.condition(one)),
        }
    }

    fn expr(&self, expr: &Expr) -> String {
        let two =
            |a: &Expr, by: &str, b: &Expr| format!("({} {by} {})", self.expr(a), self.expr(b));
        let axis = |at: usize| self.0.axes.get(at).map_or("?", |axis| axis.name.as_str());
        match expr {
            Expr::Int(value) => value.to_string(),
            Expr::Rank => "r".to_owned(),
            Expr::Size => "size".to_owned(),
            Expr::Coordinate(id) => format!("r.{}", axis(id.index())),
            Expr::Extent(id) => axis(id.index()).to_owned(),
            Expr::Param(id) => {
                self.0.params.get(id.index()).map_or("?", |param| param.name.as_str()).to_owned()
            }
            Expr::Element(id, at) => format!("param{}[{}]", id.0, self.expr(at)),
            Expr::Loop(id) => {
                self.0.counters.get(id.index()).map_or("?", |one| one.name.as_str()).to_owned()
            }
            Expr::Add(a, b) => two(a, "+", b),
            Expr::Sub(a, b) => two(a, "-", b),
            Expr::Mul(a, b) => two(a, "*", b),
            Expr::Div(a, b) => two(a, "/", b),
            Expr::Rem(a, b) => two(a, "%", b),
            Expr::Min(a, b) => two(a, "min", b),
            Expr::Max(a, b) => two(a, "max", b),
            Expr::Xor(a, b) => two(a, "^", b),
            Expr::Choice(choice) => {
                let (then, otherwise) = (self.expr(&choice.then), self.expr(&choice.otherwise));
                format!(
                    "(if {} {{ {then} }} else {{ {otherwise} }})",
                    self.condition(&choice.condition)
                )
            }
            Expr::Absent(at) => format!("[][{}]", self.expr(at)),
            Expr::TooDeep | Expr::TooLarge => "?".to_owned(),
        }
    }
}
