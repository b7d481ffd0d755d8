//! Statements, one by one.

use proc_macro2::Ident;
use typed_nccl_plan::ir::{
    self, Collective, Coverage, Expr, Location, Loop, Named, Postcondition, Put, Receive, Send,
    Signal, SignalId, Step, StepKind, Transfer, Wait, When,
};

use super::listed::Rows;
use super::number::not;
use super::place::Around;
use super::scope::{Meaning, last};
use super::{Looked, Reported, Resolver};
use crate::area::Area;
use crate::ast::{self, Block, Statement, StatementKind, text};
use crate::fault::Fault;

/// The most statements from repetitions over lists of values.
pub(super) const MOST_STATEMENTS: usize = 10_000;

impl Resolver<'_> {
    /// The statements of a block, whose declarations are local to it.
    pub(super) fn block(&mut self, block: &Block, around: &Around, top: bool) -> Vec<Step> {
        let depth = self.scope.depth();
        let mut steps = Vec::with_capacity(block.len());
        for statement in block {
            // Failed look-ups are reported already.
            let _: Looked<()> = self.statement(statement, around, top, &mut steps);
        }
        self.scope.leave(depth);
        steps
    }

    /// Gives a name to what a value is.
    pub(super) fn let_be(&mut self, name: &Ident, value: &ast::Expr) {
        let meaning = self.named(value).unwrap_or(Meaning::Broken);
        self.declare_here(name, meaning);
        self.scope.write(text(name), value.area);
    }

    fn statement(
        &mut self,
        statement: &Statement,
        around: &Around,
        top: bool,
        steps: &mut Vec<Step>,
    ) -> Looked<()> {
        let area = statement.area;
        match &statement.kind {
            StatementKind::Let { name, value } => {
                self.let_be(name, value);
                Ok(())
            }
            StatementKind::Const { name, rows } => self.constant(name, rows),
            kind if is_declaration(kind) => {
                if !top {
                    if matches!(kind, StatementKind::Memory(memory) if memory.names.is_empty()) {
                        return Err(Reported);
                    }
                    let fault = Fault::new(area, "a declaration cannot be inside a block");
                    return self.tell(fault.help(match kind {
                        StatementKind::Claims(_) => {
                            "put the block into it, at the top of the plan: `computes { for i in 0..k { .. } }`"
                        }
                        _ => "move it to the top of the plan",
                    }));
                }
                self.declaration(statement)
            }
            StatementKind::On(body) => {
                let inner = self.within(&statement.place, around);
                steps.extend(self.block(body, &inner, false));
                Ok(())
            }
            StatementKind::Broken { lost, bodies } => {
                self.lose(lost);
                let around = around.clone().unknown();
                bodies.iter().for_each(|body| drop(self.block(body, &around, false)));
                Err(Reported)
            }
            StatementKind::If { condition, then, otherwise } => {
                let at = self.at(area);
                let condition = self.condition(condition);
                let known = condition.is_ok();
                let condition = condition.unwrap_or(ir::Condition::All(Vec::new()));
                let contrary = otherwise.as_ref().map(|_| not(condition.clone()));
                self.valid.statements.push(area);
                let body = self.block(then, around, false);
                steps.push(Step { kind: StepKind::When(When { condition, body }), at });
                if let (Some(block), Some(condition)) = (otherwise, contrary) {
                    self.valid.statements.push(area);
                    let body = self.block(block, around, false);
                    steps.push(Step { kind: StepKind::When(When { condition, body }), at });
                }
                if known { Ok(()) } else { Err(Reported) }
            }
            StatementKind::Here(block) => {
                let before = self.valid.plan.claims.len();
                let done = self.claims(block, &[]);
                let claims = self.valid.plan.claims.split_off(before);
                self.valid.statements.extend(claims.iter().map(|_| area));
                let here = |claim: ir::Claim| Step { at: claim.at, kind: StepKind::Here(claim) };
                steps.extend(claims.into_iter().map(here));
                done
            }
            StatementKind::Each { names, list, body } => {
                let rows = self.each_row(names, list);
                self.each(names, rows, (body, area), around, steps)
            }
            _ => {
                let at = self.at(area);
                self.valid.statements.push(area);
                let kind = self.step(statement, around, at)?;
                steps.push(Step { kind, at });
                Ok(())
            }
        }
    }

    /// Repeats a block for each row of a list.
    fn each(
        &mut self,
        names: &[Ident],
        rows: Looked<Rows>,
        (body, area): (&Block, Area),
        around: &Around,
        steps: &mut Vec<Step>,
    ) -> Looked<()> {
        let told = self.faults.len();
        let Ok(rows) = rows else {
            // Errors in the block are reported too.
            let depth = self.scope.depth();
            names.iter().for_each(|name| self.declare_here(name, Meaning::Broken));
            steps.extend(self.block(body, around, false));
            self.scope.leave(depth);
            return Err(Reported);
        };
        for row in &*rows {
            let depth = self.scope.depth();
            self.take_row(names, row);
            steps.extend(self.block(body, around, false));
            self.scope.leave(depth);
            // Errors in the block are reported once.
            if self.faults.len() > told {
                return Err(Reported);
            }
            // A block may be repeated without containing a statement.
            self.written_out += 1;
            if self.written_out.max(self.valid.statements.len()) > MOST_STATEMENTS {
                let title = format!("written out, this is more than {MOST_STATEMENTS} statements");
                let fault = Fault::new(area, title);
                return self.tell(fault.help("count instead, as in `for i in 0..k { .. }`"));
            }
        }
        Ok(())
    }

    fn step(&mut self, statement: &Statement, around: &Around, at: Location) -> Looked<StepKind> {
        let area = statement.area;
        match &statement.kind {
            StatementKind::Group(body) => {
                let inner = self.within(&statement.place, around);
                Ok(StepKind::Group(self.block(body, &inner, false)))
            }
            StatementKind::Sequence(body) => {
                let inner = self.within(&statement.place, around);
                Ok(StepKind::Sequence(self.block(body, &inner, false)))
            }
            StatementKind::For { counted, reverse, body } => {
                let depth = self.scope.depth();
                let each = self.counting(counted);
                let body = self.block(body, around, false);
                self.scope.leave(depth);
                let ir::Each { counter, from, to, powers } = each?;
                Ok(StepKind::Loop(Loop { counter, from, to, powers, reverse: *reverse, body }))
            }
            StatementKind::Run { name, arguments, known, computes } => {
                let place = self.place(&statement.place, around, area);
                let written = (&**arguments, *known);
                let step = self.compute(name, written, computes, &statement.docs, at, place)?;
                Ok(StepKind::Compute(step))
            }
            StatementKind::Assign { to, update, value } => {
                self.names_memory(to, *update)?;
                let place = self.place(&statement.place, around, area);
                self.assign(to, *update, value, area, place)
            }
            kind => self.communication(kind, statement, around, area),
        }
    }

    fn communication(
        &mut self,
        kind: &StatementKind,
        statement: &Statement,
        around: &Around,
        area: Area,
    ) -> Looked<StepKind> {
        let place = self.place(&statement.place, around, area);
        match kind {
            StatementKind::Send { through, from, peer, into } => {
                let among = self.among(through.as_ref());
                let (from, peer) = (self.region(from), self.peer(peer));
                let to = into.as_ref().map(|into| self.region_elsewhere(into)).transpose();
                let (among, from, peer, to, place) = (among?, from?, peer?, to?, place?);
                Ok(match to {
                    Some(to) => StepKind::Transfer(Transfer { from, peer, to, among, place }),
                    None => StepKind::Send(Send { from, peer, among, place }),
                })
            }
            StatementKind::Receive { through, into, peer } => {
                let among = self.among(through.as_ref());
                let (to, peer) = (self.region(into), self.peer(peer));
                let (among, to, peer, place) = (among?, to?, peer?, place?);
                Ok(StepKind::Receive(Receive { to, peer, among, place }))
            }
            StatementKind::Put { through, from, peer, into, signal } => {
                let among = self.among(through.as_ref());
                let (from, peer, to) = (self.region(from), self.peer(peer), self.region(into));
                let signal = signal.as_ref().map(|signal| self.signal(signal)).transpose();
                let (among, from, peer, to) = (among?, from?, peer?, to?);
                let (signal, place) = (signal?, place?);
                Ok(StepKind::Put(Put { from, peer, to, signal, among, place }))
            }
            StatementKind::Signal { through, signal, peer } => {
                let among = self.among(through.as_ref());
                let (signal, peer) = (self.signal(signal), self.peer(peer));
                let (among, signal, peer, place) = (among?, signal?, peer?, place?);
                Ok(StepKind::Signal(Signal { signal, peer, among, place }))
            }
            StatementKind::Wait { through, signals } => {
                let among = self.among(through.as_ref());
                let mut awaited = Vec::with_capacity(signals.len());
                for one in signals {
                    let times =
                        one.times.as_ref().map_or(Ok(Expr::Int(1)), |times| self.number(times));
                    let (signal, peer) = (self.signal(&one.signal), self.peer(&one.peer));
                    awaited.push((|| {
                        Ok(ir::Awaited { signal: signal?, peer: peer?, times: times? })
                    })());
                }
                let signals = awaited.into_iter().collect::<Looked<_>>()?;
                Ok(StepKind::Wait(Wait { signals, among: among?, place: place? }))
            }
            StatementKind::Collective(written) => {
                let meant = self.collective(written)?;
                let super::collective::Meant { kind, send, recv, among } = meant;
                Ok(StepKind::Collective(Collective { kind, send, recv, among, place: place? }))
            }
            // All others are declarations and blocks.
            _ => Err(Reported),
        }
    }

    fn declaration(&mut self, statement: &Statement) -> Looked<()> {
        match &statement.kind {
            StatementKind::Memory(memory) => self.memory(memory, &statement.docs),
            StatementKind::Signals(names) => {
                for name in names {
                    let at = self.at(name.span());
                    self.valid.plan.signals.push(Named { name: text(name), at });
                    let id = SignalId(last(&self.valid.plan.signals));
                    self.declare(name, Meaning::Signal(id));
                }
            }
            StatementKind::Communicator { name, along } => {
                let at = self.at(name.span());
                let axes: Vec<_> = along.iter().map(|axis| self.axis(axis)).collect();
                let mut axes = axes.into_iter().collect::<Looked<Vec<_>>>().inspect_err(|_| {
                    // Whatever it was meant to be, it is declared.
                    self.declare(name, Meaning::Broken);
                })?;
                axes.sort();
                self.valid.plan.communicators.push(ir::Communicator { name: text(name), axes, at });
                let id = ir::CommunicatorId(last(&self.valid.plan.communicators));
                self.declare(name, Meaning::Communicator(id));
            }
            StatementKind::Covers(region) => {
                let at = self.at(statement.area);
                let region = self.region(region)?;
                self.valid.plan.covers.push(Coverage { region, at });
            }
            StatementKind::Computes(written) => {
                let at = self.at(statement.area);
                let meant = self.collective(written)?;
                let super::collective::Meant { kind, send, recv, .. } = meant;
                self.valid.plan.computes.push(Postcondition { kind, send, recv, at });
            }
            StatementKind::Claims(block) => self.claims(block, &[])?,
            // Streams are all declared before the first statement.
            _ => {}
        }
        Ok(())
    }
}

fn is_declaration(kind: &StatementKind) -> bool {
    matches!(
        kind,
        StatementKind::Memory(_)
            | StatementKind::Streams(_)
            | StatementKind::Signals(_)
            | StatementKind::Communicator { .. }
            | StatementKind::Covers(_)
            | StatementKind::Computes(_)
            | StatementKind::Claims(_)
    )
}
