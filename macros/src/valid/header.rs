//! Axes, parameters, promises, streams.

use typed_nccl_plan::ir::{
    self, Axis, Communicator, Comparison, Condition, Launch, Location, Named, Order, ParamId,
    Values,
};

use super::scope::{Meaning, last};
use super::{Kind, Known, Looked, Resolver, Valid, rings};
use crate::ast::{self, Check, Param, ParamKind, Plan, Promised, StatementKind, text};
use crate::fault::Fault;

pub(super) fn empty(plan: &Plan) -> Valid {
    let settings = &plan.settings;
    Valid {
        plan: ir::Plan {
            launch: if settings.captured { Launch::Captured } else { Launch::Eager },
            kernels: !settings.without_kernels,
            replayed: !settings.once,
            target: settings.target.unwrap_or_default(),
            order: if settings.implicit_order { Order::Implicit } else { Order::Declared },
            ..ir::Plan::new(text(&plan.name))
        },
        areas: Default::default(),
        statements: Vec::new(),
        memory: Vec::new(),
        computed: Vec::new(),
        params: Vec::new(),
    }
}

impl Resolver<'_> {
    pub(super) fn header(&mut self, plan: &Plan) {
        let at = self.at(plan.name.span());
        // The plan's name stands for anything without a place of its own.
        self.valid.areas.insert(Location::default(), plan.name.span().into());
        for param in &plan.types {
            let name = text(&param.name);
            if self.types.iter().any(|(known, _)| *known == name) {
                let title = format!("two type parameters are called `{name}`");
                self.faults.push(Fault::new(param.name.span(), title).help("choose another name"));
            }
            self.types.push((name, param.bound.as_ref().map(ToString::to_string)));
        }
        self.lose(&plan.lost);
        self.scope.same = true;
        let missing = self.ranks(plan);
        plan.params.iter().for_each(|param| self.param(param, missing == Some(text(&param.name))));
        let axes = (0..).zip(&self.valid.plan.axes).map(|(id, _)| ir::AxisId(id)).collect();
        let world = Communicator { name: "world".to_owned(), axes, at };
        self.valid.plan.communicators.push(world);
        self.streams(plan, at);
        // Errors are reported where they are found.
        let _ = self.promises(&plan.promises, &[]);
        self.scope.same = false;
        plan.settings.checks.iter().for_each(|check| self.check(check));
    }

    /// Refuses type parameters with the name of a type that the plan's module declares.
    pub(super) fn type_names(&mut self, plan: &Plan) {
        let valid = &self.valid;
        let steps = valid.computed.len();
        let is_slot = |name: &str| (0..steps).any(|nth| name == format!("Step{nth}"));
        let is_given =
            |known: &Known| matches!(known.kind, Kind::Number | Kind::List | Kind::Counts);
        let has_params = valid.plan.axes.len() > 1 || valid.params.iter().any(is_given);
        let is_taken = |name: &str| match name {
            "Bound" | "Buffers" | "S" | "W" => true,
            "Params" => has_params,
            "Closures" | "Runner" | "Step" | "Steps" => steps > 0,
            name => is_slot(name),
        };
        let is_free = |name: &&str| self.types.iter().all(|(known, _)| known != name);
        let free = ["T", "U", "V", "E"].into_iter().find(is_free).unwrap_or("Item");
        for param in plan.types.iter().filter(|param| is_taken(&text(&param.name))) {
            let title = format!("the plan's module has its own type `{}`", param.name);
            let help = format!("choose another name for this type parameter, such as `{free}`");
            self.faults.push(Fault::new(param.name.span(), title).help(help));
        }
    }

    fn promises(&mut self, promises: &[Promised], around: &[ir::Each]) -> Looked<()> {
        let all: Vec<_> = promises.iter().map(|one| self.promised(one, around)).collect();
        all.into_iter().collect()
    }

    /// Conditions inside these loops.
    fn promised(&mut self, promised: &Promised, around: &[ir::Each]) -> Looked<()> {
        match promised {
            Promised::Holds(expr) => {
                self.whole_list(expr)?;
                let (at, condition) = (self.at(expr.area), self.condition(expr)?);
                if !around.is_empty() || !self.narrows(&condition) {
                    let around = around.to_vec();
                    self.valid.plan.promises.push(ir::Promise { around, condition, at });
                }
            }
            Promised::For { counted, body } => {
                let depth = self.scope.depth();
                let around = self.counting(counted).map(|each| [around, &[each]].concat());
                let done = self.promises(body, around.as_deref().unwrap_or_default());
                self.scope.leave(depth);
                around.and(done)?;
            }
            Promised::Each { names, list, body } => {
                self.for_rows(names, list, |this| this.promises(body, around))?;
            }
        }
        Ok(())
    }

    /// Reports a comparison of a list, of which its elements are meant.
    fn whole_list(&mut self, expr: &ast::Expr) -> Looked<()> {
        let ast::ExprKind::Binary(left, ..) = &expr.kind else { return Ok(()) };
        let ast::ExprKind::Name(name) = &left.kind else { return Ok(()) };
        let plan = &self.valid.plan;
        let mut params = plan.params.iter().filter(|param| param.name == text(name));
        let Some(count) = params.find_map(|param| param.count.as_ref()) else { return Ok(()) };
        let help = format!("for each element, `for i in 0..{} {{ {name}[i]", plan.show(count));
        let title = format!("`{name}` is a list of numbers, and a condition compares one");
        self.tell(Fault::new(name.span(), title).help(format!("write it {help} .. }}`")))
    }

    /// Sizes to check.
    fn check(&mut self, check: &Check) {
        let mut asked = ir::Asked { at: self.at(check.area), ..ir::Asked::default() };
        for (name, values) in &check.sizes {
            let called = text(name);
            let plan = &self.valid.plan;
            let axis = plan.axes.iter().position(|axis| axis.name == called);
            let param = plan.params.iter().position(|param| param.name == called);
            let id = |at: usize| u32::try_from(at).unwrap_or(u32::MAX);
            match (axis, param) {
                (Some(at), _) => asked.extents.push((ir::AxisId(id(at)), values.clone())),
                (None, Some(at)) => asked.params.push((ParamId(id(at)), values.clone())),
                (None, None) => {
                    let title = format!("the plan has no number `{called}`");
                    let fault = Fault::new(name.span(), title);
                    self.faults.push(fault.help("name its ranks, or one of its parameters"));
                }
            }
        }
        self.valid.plan.checks.push(asked);
    }

    /// Reports that no parameter is of type `Ranks`. Returns the name of the one that was meant to
    /// be, if any, which is then treated as such to avoid further errors.
    fn ranks(&mut self, plan: &Plan) -> Option<String> {
        if plan.params.iter().any(|param| matches!(param.kind, ParamKind::Ranks)) {
            return None;
        }
        let fault = |area| Fault::new(area, "the plan has no ranks");
        // The part that could not be parsed may declare them.
        let unknown = |param: &&Param| matches!(param.kind, ParamKind::Unknown);
        let unknown = plan.params.iter().find(unknown).map(|param| text(&param.name));
        if unknown.is_some() || plan.lost.nameless {
            return unknown;
        }
        let numbers = plan.params.iter().filter(|param| matches!(param.kind, ParamKind::Number));
        let numbers: Vec<&Param> = numbers.collect();
        let around = rings::names(&plan.body);
        let named = |known: &[String]| {
            numbers.iter().find(|param| known.contains(&text(&param.name))).copied()
        };
        let usual = ["n", "ranks", "nranks", "n_ranks", "world_size", "p"].map(str::to_owned);
        let Some(meant) = named(&around).or_else(|| named(&usual)) else {
            let fault = fault(plan.name.span());
            let rest = if plan.params.is_empty() { "" } else { ", .." };
            self.faults.push(fault.help(format!("write `{}(n: Ranks{rest})`", plan.name)));
            return None;
        };
        let name = text(&meant.name);
        let help = format!("write `{name}: Ranks` instead of `{name}: usize`");
        self.faults.push(fault(meant.name.span()).help(help));
        Some(name)
    }

    fn param(&mut self, param: &Param, is_ranks: bool) {
        let at = self.at(param.name.span());
        let name = text(&param.name);
        let values = param.values.clone().unwrap_or(Values::AtLeast(1));
        let what = shown(&values);
        let (kind, meaning) = match &param.kind {
            ParamKind::Number | ParamKind::Unknown if is_ranks => self.ranks_of(name, values, at),
            ParamKind::Ranks => self.ranks_of(name, values, at),
            ParamKind::Number | ParamKind::Constant | ParamKind::Unknown => {
                self.valid.plan.params.push(ir::Param { name, values, count: None, at });
                let id = ParamId(last(&self.valid.plan.params));
                match param.kind {
                    ParamKind::Constant => (Kind::Constant, Meaning::Param(id)),
                    ParamKind::Unknown => (Kind::Number, Meaning::Broken),
                    _ => (Kind::Number, Meaning::Param(id)),
                }
            }
            ParamKind::List(count) | ParamKind::Counts(count) => {
                let count = self.number(count).unwrap_or(ir::Expr::Int(1));
                self.valid.plan.params.push(ir::Param { name, values, count: Some(count), at });
                let id = ParamId(last(&self.valid.plan.params));
                let is_passed = matches!(param.kind, ParamKind::Counts(_));
                self.valid.plan.counts.extend(is_passed.then_some(id));
                (if is_passed { Kind::Counts } else { Kind::List }, Meaning::List(id))
            }
        };
        self.declare(&param.name, meaning);
        let (name, docs) = (param.name.clone(), param.docs.clone());
        self.valid.params.push(Known { name, docs, kind, what });
    }

    fn ranks_of(&mut self, name: String, extent: Values, at: Location) -> (Kind, Meaning) {
        self.valid.plan.axes.push(Axis { name, extent, at });
        (Kind::Axis, Meaning::Axis(ir::AxisId(last(&self.valid.plan.axes))))
    }

    /// Streams are known before the first statement, since their number decides whether one may be
    /// left out.
    fn streams(&mut self, plan: &Plan, at: Location) {
        for statement in &plan.body {
            let StatementKind::Streams(names) = &statement.kind else { continue };
            for name in names {
                let at = self.at(name.span());
                self.valid.plan.streams.push(Named { name: text(name), at });
                let id = ir::StreamId(last(&self.valid.plan.streams));
                self.declare(name, Meaning::Stream(id));
            }
        }
        if self.valid.plan.streams.is_empty() {
            self.valid.plan.streams.push(Named { name: "main".to_owned(), at });
        }
    }

    /// Whether a promise only sets the lower bound of an axis or a parameter, which then records it
    /// itself.
    fn narrows(&mut self, promise: &Condition) -> bool {
        let Condition::Compare(left, comparison, ir::Expr::Int(first)) = promise else {
            return false;
        };
        let first = match comparison {
            Comparison::GreaterOrEqual => *first,
            Comparison::Greater => first.saturating_add(1),
            _ => return false,
        };
        let plan = &mut self.valid.plan;
        let values = match left {
            ir::Expr::Extent(axis) => plan.axes.get_mut(axis.index()).map(|axis| &mut axis.extent),
            ir::Expr::Size if plan.axes.len() == 1 => Some(&mut plan.axes[0].extent),
            ir::Expr::Param(param) => {
                plan.params.get_mut(param.index()).map(|param| &mut param.values)
            }
            _ => None,
        };
        match values {
            Some(Values::AtLeast(before)) => {
                *before = first.max(*before);
                true
            }
            _ => false,
        }
    }
}

fn shown(values: &Values) -> String {
    match values {
        Values::Exactly(only) => format!("always {only}"),
        Values::OneOf(list) => {
            let list: Vec<String> = list.iter().map(ToString::to_string).collect();
            format!("one of {}", list.join(", "))
        }
        Values::Range(first, last) => format!("{first} to {last}"),
        Values::AtLeast(first) => format!("{first} or more"),
        Values::Powers(of) => format!("a power of {of}"),
    }
}
