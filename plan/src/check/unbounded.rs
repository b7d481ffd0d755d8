//! Names whose values are not looked at one by one, in words.

use crate::check::domain;
use crate::ir::{AxisId, Condition, Expr, Plan, Values};

/// Values of a list or a range that are checked one by one, at most.
const LISTED: usize = 64;

/// The values, where they are few.
pub(crate) fn few(values: &Values) -> Option<Vec<i64>> {
    match values {
        // A list that somebody wrote is checked as it is.
        Values::OneOf(_) | Values::Exactly(_) => domain::all(values),
        _ => domain::all(values).filter(|all| all.len() <= LISTED),
    }
}

/// Some of a plan's axes and parameters, of which only some values are looked at.
pub(crate) struct Unbounded<'a> {
    plan: &'a Plan,
    axes: Vec<bool>,
    params: Vec<bool>,
}

impl<'a> Unbounded<'a> {
    pub(crate) fn none(plan: &'a Plan) -> Self {
        Self { plan, axes: vec![false; plan.axes.len()], params: vec![false; plan.params.len()] }
    }

    pub(crate) fn of(plan: &'a Plan, axes: Vec<bool>, params: Vec<bool>) -> Self {
        Self { plan, axes, params }
    }

    pub(crate) fn ranks(plan: &'a Plan) -> Self {
        Self { axes: vec![true; plan.axes.len()], ..Self::none(plan) }
    }

    pub(crate) fn axis(mut self, axis: usize) -> Self {
        self.axes[axis] = true;
        self
    }

    pub(crate) fn param(mut self, param: usize) -> Self {
        self.params[param] = true;
        self
    }

    /// What a number mentions.
    pub(crate) fn number(mut self, number: &Expr) -> Self {
        number.any(|part| {
            self.mention(part);
            false
        });
        self
    }

    /// What a condition mentions.
    pub(crate) fn condition(mut self, condition: &Condition) -> Self {
        condition.any(&mut |part| {
            self.mention(part);
            false
        });
        self
    }

    fn mention(&mut self, part: &Expr) {
        match part {
            Expr::Param(id) | Expr::Element(id, _) => self.params[id.index()] = true,
            Expr::Extent(axis) | Expr::Coordinate(axis) => self.axes[axis.index()] = true,
            Expr::Size | Expr::Rank => self.axes.fill(true),
            _ => {}
        }
    }

    /// The first of the axes, if there is one.
    pub(crate) fn first_axis(&self) -> Option<AxisId> {
        let few = |at: usize| few(&self.plan.axes[at].extent).is_some();
        let at = (0..self.axes.len()).find(|&at| self.axes[at] && !few(at))?;
        u32::try_from(at).ok().map(AxisId)
    }

    /// Their names: those of single numbers, and those of lists, whose elements are never all tried. And whether
    /// one has a range already, which is too long.
    fn names(&self) -> (Vec<String>, Vec<String>, bool) {
        let quoted = |name: &String| format!("`{name}`");
        let axes = self.plan.axes.iter().zip(&self.axes).filter(|(_, is)| **is);
        let axes = axes.map(|(axis, _)| (&axis.name, &axis.extent));
        let params = self.plan.params.iter().zip(&self.params).filter(|(_, is)| **is);
        let (lists, params): (Vec<_>, Vec<_>) =
            params.map(|(param, _)| param).partition(|param| param.count.is_some());
        let params = params.into_iter().map(|param| (&param.name, &param.values));
        let numbers = axes.chain(params).filter(|(_, values)| few(values).is_none());
        let (names, values): (Vec<String>, Vec<&Values>) =
            numbers.map(|(name, values)| (quoted(name), values)).unzip();
        let lists = lists.into_iter().map(|list| quoted(&list.name)).collect();
        (names, lists, values.iter().any(|values| matches!(values, Values::Range(..))))
    }

    /// Their names: `` `n` and `k`, which have no bound ``.
    pub(crate) fn named(&self) -> String {
        let (numbers, lists, too_many) = self.names();
        if let (None, Some(lists)) = (joined(&numbers), joined(&lists)) {
            return format!("{lists}, of whose elements not all values are tried");
        }
        let names = [numbers, lists].concat();
        let have = if names.len() > 1 { "have" } else { "has" };
        let what =
            if too_many { format!("more than {LISTED} values") } else { "no bound".to_owned() };
        match joined(&names) {
            Some(names) => format!("{names}, which {have} {what}"),
            None => "what has no bound".to_owned(),
        }
    }

    /// What makes everything decidable.
    pub(crate) fn declare(&self) -> String {
        let (numbers, lists, too_many) = self.names();
        let apart = joined(&lists).map(|lists| {
            format!("use a parameter of its own, with a list of values, for an element of {lists}")
        });
        let as_what = if numbers.len() == 1 { "a list or a range" } else { "lists or ranges" };
        // One that has a range already needs a shorter one.
        let short = if too_many { format!(" of at most {LISTED} values") } else { String::new() };
        let declare = |names: String| format!("declare {names} as {as_what}{short}");
        let what = match (joined(&numbers).map(declare), apart) {
            (Some(declare), Some(apart)) => format!("{declare}, and {apart}"),
            (Some(one), None) | (None, Some(one)) => one,
            (None, None) => declare("the ranks and the parameters".to_owned()),
        };
        format!("{what}: then each is checked")
    }

    /// What makes it less work, whatever is declared of them now.
    pub(crate) fn declare_few(&self) -> String {
        let names: Vec<String> =
            self.plan.axes.iter().map(|axis| format!("`{}`", axis.name)).collect();
        let names = joined(&names).unwrap_or_else(|| "the ranks".to_owned());
        format!("declare few values of {names}, as a list or a short range")
    }
}

fn joined(names: &[String]) -> Option<String> {
    match names {
        [] => None,
        [one] => Some(one.clone()),
        [some @ .., last] => Some(format!("{} and {last}", some.join(", "))),
    }
}
