//! The checker and the simulator, side by side.
//!
//! They agree on an instance if one accepts it exactly when the other does, and if every rule that
//! the checker says is broken is broken in the simulator. The simulator runs all of its rules on
//! every instance, whatever else is wrong; the checker may stop at the first that makes others
//! meaningless. So the simulator may name more rules, and never fewer, but for one case: where the
//! simulator finds a rule broken on which a run depends (A1 to A4, A8, A11, A12), or a hang (A5,
//! A6), what the checker says of the run beyond it (A5 to A7, A9, A10, A13 to A15) is not compared.
//! Where memory races (A9), what is read and left depends on the schedule: then A14 and A15 are not
//! compared.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, PoisonError};

use typed_nccl_plan::check::check_at;
use typed_nccl_plan::ir::{Launch, Plan, Role, Step, StepKind, Version};
use typed_nccl_plan::verdict::{Check, ProblemKind, Rejected, Sizes};

use crate::dump::dump;
use crate::generate;
use crate::outcome::Outcome;
use crate::random::Random;
use crate::shrink::shrink;
use crate::{shake, simulate};

/// How two verdicts differ.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Difference {
    /// The checker accepts what breaks this rule.
    Accepted(Check),
    /// The checker says that this rule is broken, and nothing is.
    Rejected(Check),
    /// The checker says that this rule is broken, and others are.
    Other(Check),
    /// The checker refuses it for another reason.
    Refused(String),
    /// The checker panics.
    Panicked,
    /// The simulator accepts it, and its schedules differ: a mistake in the simulator.
    Shaken,
}

/// What a comparison of many instances found.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// What was seen.
    pub table: Table,
    /// The first difference of each kind, with the smallest plan that shows it.
    pub differences: BTreeMap<Difference, String>,
}

/// How often each rule was kept, and broken.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Instances that were compared.
    pub instances: usize,
    /// Instances with nothing wrong.
    pub right: usize,
    /// Instances that were no plan, and not compared.
    pub malformed: usize,
    /// For each rule: instances that keep it with something to keep; that break it; and it alone.
    pub rules: BTreeMap<Check, [usize; 3]>,
    /// Races of the clocks, and how many of them a few random schedules show.
    pub races: [usize; 2],
}

impl Table {
    fn add(&mut self, other: &Self) {
        self.instances += other.instances;
        self.right += other.right;
        self.malformed += other.malformed;
        for (check, counts) in &other.rules {
            let mine = self.rules.entry(*check).or_default();
            mine.iter_mut().zip(counts).for_each(|(a, b)| *a += b);
        }
        self.races.iter_mut().zip(other.races).for_each(|(a, b)| *a += b);
    }

    fn note(&mut self, plan: &Plan, outcome: &Outcome) {
        self.instances += 1;
        self.right += usize::from(outcome.is_right());
        for check in Check::ALL {
            let counts = self.rules.entry(check).or_default();
            if outcome.breaks(check) {
                counts[1] += 1;
                counts[2] += usize::from(outcome.notes.len() == 1);
            } else if outcome.is_right() && concerns(plan, check) {
                counts[0] += 1;
            }
        }
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { instances, right, malformed, races, .. } = self;
        writeln!(f, "{instances} instances, {right} right; {malformed} more were no plans")?;
        writeln!(f, "{} raced, of which random schedules show {}", races[0], races[1])?;
        writeln!(f, "{:>5} {:>10} {:>10} {:>10}", "rule", "kept", "broken", "alone")?;
        for (check, [kept, broken, alone]) in &self.rules {
            writeln!(f, "{:>5} {kept:>10} {broken:>10} {alone:>10}", check.to_string())?;
        }
        Ok(())
    }
}

/// Whether two verdicts on one instance differ; with the simulator's.
pub fn compare(plan: &Plan, sizes: &Sizes) -> (Outcome, Option<Difference>) {
    let mut outcome = simulate(plan, sizes);
    if let Some(problem) = plan.validate().first() {
        outcome = Outcome { malformed: Some(problem.title.clone()), ..Outcome::default() };
        return (outcome, None);
    }
    let verdict = catch_unwind(AssertUnwindSafe(|| check_at(plan, sizes)));
    let difference = match verdict {
        // A number without a value, as in a division by 0, counts as a place outside.
        Ok(Ok(())) if outcome.malformed.is_some() => Some(Difference::Accepted(Check::Bounds)),
        Ok(Ok(())) => outcome.notes.keys().next().map(|check| Difference::Accepted(*check)),
        Ok(Err(_)) if outcome.malformed.is_some() => None,
        Ok(Err(rejected)) => against(&rejected, &outcome),
        Err(_) => Some(Difference::Panicked),
    };
    (outcome, difference)
}

pub(crate) fn against(rejected: &Rejected, outcome: &Outcome) -> Option<Difference> {
    let masked = outcome.notes.keys().any(|check| first(*check));
    let races = outcome.breaks(Check::Hazards);
    for problem in &rejected.problems {
        match &problem.kind {
            ProblemKind::Broken(check) => {
                if outcome.is_right() {
                    return Some(Difference::Rejected(*check));
                }
                let data = matches!(check, Check::Postcondition | Check::Initialised);
                let unknown = masked && later(*check) || races && data;
                if !outcome.breaks(*check) && !unknown {
                    return Some(Difference::Other(*check));
                }
            }
            other => return Some(Difference::Refused(format!("{other:?}: {}", problem.title))),
        }
    }
    None
}

/// Rules without which a run means nothing.
fn first(check: Check) -> bool {
    use Check::{
        Agreement, Bounds, CapturedCredit, CollectiveOrder, Deadlock, Groups, Matching,
        SelfMessages, Signals,
    };
    matches!(
        check,
        Matching
            | Agreement
            | SelfMessages
            | CollectiveOrder
            | Deadlock
            | CapturedCredit
            | Groups
            | Signals
            | Bounds
    )
}

/// Rules about a run.
fn later(check: Check) -> bool {
    use Check::{Agreement, Bounds, CollectiveOrder, Groups, Matching, SelfMessages, Signals};
    !matches!(
        check,
        Matching | Agreement | SelfMessages | CollectiveOrder | Groups | Signals | Bounds
    )
}

/// Compares this many instances of random plans, on so many threads. `tell` hears of the progress
/// of the first thread, in instances.
pub fn run_many(seed: u64, count: usize, threads: usize, tell: &(dyn Fn(usize) + Sync)) -> Report {
    let mut all = Report::default();
    let work = |thread: usize| {
        let mut report = Report::default();
        let mut at = thread as u64;
        while report.table.instances < count / threads {
            plan(seed.wrapping_add(at.wrapping_mul(0x2545_f491_4f6c_dd1d)), &mut report);
            at += threads as u64;
            if thread == 0 {
                tell(report.table.instances * threads);
            }
        }
        report
    };
    for report in in_threads(threads, &work) {
        all.table.add(&report.table);
        for (difference, text) in report.differences {
            all.differences.entry(difference).or_insert(text);
        }
    }
    all
}

/// What each thread found.
pub(crate) fn in_threads<T: Send>(threads: usize, work: &(dyn Fn(usize) -> T + Sync)) -> Vec<T> {
    // One at a time: how panics are told is the process's.
    static TURN: Mutex<()> = Mutex::new(());
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    // Panics of the checker are a kind of difference, told at the end.
    let hook = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| {}));
    let found = std::thread::scope(|scope| {
        let running: Vec<_> =
            (0..threads).map(|thread| scope.spawn(move || work(thread))).collect();
        running.into_iter().map(std::thread::ScopedJoinHandle::join).collect::<Vec<_>>()
    });
    std::panic::set_hook(hook);
    let found = found.into_iter();
    found.map(|one| one.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
}

/// All instances of one random plan.
fn plan(seed: u64, report: &mut Report) {
    let mut random = Random::new(seed);
    let (plan, sizes) = generate::case(&mut random);
    for sizes in sizes {
        let (outcome, mut difference) = compare(&plan, &sizes);
        if outcome.malformed.is_some() && difference.is_none() {
            report.table.malformed += 1;
            continue;
        }
        report.table.note(&plan, &outcome);
        let races = outcome.breaks(Check::Hazards) || outcome.breaks(Check::ReplayHazards);
        if outcome.is_right() {
            let shaken = shake(&plan, &sizes, &mut random, 2).is_some();
            difference = difference.or_else(|| shaken.then_some(Difference::Shaken));
        } else if races && !outcome.notes.keys().any(|check| first(*check)) {
            report.table.races[0] += 1;
            let shaken = shake(&plan, &sizes, &mut random, 6).is_some();
            report.table.races[1] += usize::from(shaken);
        }
        if let Some(difference) = difference
            && !report.differences.contains_key(&difference)
        {
            let text = story(&plan, &sizes, &difference);
            report.differences.insert(difference, text);
        }
    }
}

/// The smallest plan that shows a difference, with both verdicts.
fn story(plan: &Plan, sizes: &Sizes, difference: &Difference) -> String {
    let again = |plan: &Plan, sizes: &Sizes| {
        if *difference == Difference::Shaken {
            let right = simulate(plan, sizes).is_right();
            return right && shake(plan, sizes, &mut Random::new(1), 8).is_some();
        }
        compare(plan, sizes).1.as_ref() == Some(difference)
    };
    let (plan, sizes) = shrink(plan, sizes, &mut |plan, sizes| again(plan, sizes));
    let checker = match catch_unwind(|| check_at(&plan, &sizes)) {
        Ok(Ok(())) => "accepted\n".to_owned(),
        Ok(Err(rejected)) => rejected.to_string(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
            format!("panicked: {}\n", text.unwrap_or("without a word"))
        }
    };
    let simulator = simulate(&plan, &sizes);
    let mut text = format!("{difference:?} for {}\n{}", sizes.text, dump(&plan));
    text += &format!("checker: {checker}simulator: {simulator}");
    if *difference == Difference::Shaken {
        text += &format!("schedules: {:?}\n", shake(&plan, &sizes, &mut Random::new(1), 8));
    }
    text
}

/// Whether a plan has what a rule is about.
fn concerns(plan: &Plan, check: Check) -> bool {
    let any = |is: &dyn Fn(&Step) -> bool| has(&plan.steps, is);
    let message = |step: &Step| {
        matches!(step.kind, StepKind::Transfer(_) | StepKind::Send(_) | StepKind::Receive(_))
    };
    let collective = |step: &Step| matches!(step.kind, StepKind::Collective(_));
    let signal = |step: &Step| matches!(step.kind, StepKind::Wait(_));
    let put = |step: &Step| matches!(step.kind, StepKind::Put(_));
    match check {
        Check::Matching => any(&message),
        Check::Agreement => any(&message) || any(&collective),
        Check::SelfMessages => any(&message) && plan.axes.len() == 1,
        Check::CollectiveOrder => any(&collective),
        Check::Deadlock => any(&|step| matches!(step.kind, StepKind::Send(_))) || any(&signal),
        Check::CapturedCredit => {
            plan.launch == Launch::Captured && plan.target < Version(2, 32, 0) && any(&signal)
        }
        Check::CommunicatorOrder => plan.communicators.len() > 1 && plan.streams.len() > 1,
        Check::Groups => any(&|step| matches!(&step.kind, StepKind::Group(all) if all.len() > 1)),
        Check::Hazards => any(&put),
        Check::ReplayHazards => any(&put) && plan.replayed,
        Check::Signals => any(&signal),
        Check::Bounds => true,
        Check::Coverage => !plan.covers.is_empty(),
        Check::Postcondition => !(plan.computes.is_empty() && plan.claims.is_empty()),
        Check::Initialised => {
            plan.buffers.iter().any(|one| matches!(one.role, Role::Out | Role::Local))
        }
    }
}

fn has(steps: &[Step], is: &dyn Fn(&Step) -> bool) -> bool {
    steps.iter().any(|step| {
        is(step)
            || match &step.kind {
                StepKind::Group(body) | StepKind::Sequence(body) => has(body, is),
                StepKind::When(one) => has(&one.body, is),
                StepKind::Loop(one) => has(&one.body, is),
                _ => false,
            }
    })
}
