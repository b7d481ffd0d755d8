//! A deadlock: who waits for whom, in a circle or for what nobody does.

use std::collections::{HashMap, HashSet};

use typed_nccl_plan::verdict::{Check, Line, Problem, ProblemKind};

use super::memory::Who;
use super::value::show_ranks;
use super::{Play, Position, Wanted, picture};
use crate::limits;
use crate::program::{Act, Place};

/// Reports why blocks cannot go on: each circle, and each wait for what nobody does.
pub(super) fn report(play: &mut Play<'_>) {
    let providers = Providers::new(play);
    let mut blocks: Vec<u32> = play.stuck.keys().copied().collect();
    blocks.sort_unstable();
    let mut seen = HashSet::new();
    let mut told = 0;
    for &block in &blocks {
        if told == limits::PROBLEMS {
            break;
        }
        let Some(chain) = chain(play, &providers, block, &mut seen) else { continue };
        let problem = chain.problem(play);
        let picture = picture::of(play, &chain.blocks());
        play.found.problems.push((problem, Some(picture)));
        told += 1;
    }
}

/// Who waits for whom, and with what step that one would help.
struct Chain {
    links: Vec<(u32, Wanted, Option<(u32, u32)>)>,
}

/// Follows a block's wait to a circle, or to what nobody does. None if that was told.
fn chain(
    play: &Play<'_>,
    providers: &Providers,
    from: u32,
    seen: &mut HashSet<u32>,
) -> Option<Chain> {
    let mut links: Vec<(u32, Wanted, Option<(u32, u32)>)> = Vec::new();
    let mut block = from;
    loop {
        if let Some(at) = links.iter().position(|(known, ..)| *known == block) {
            links.drain(..at);
            return Some(Chain { links });
        }
        if !seen.insert(block) {
            return None;
        }
        let wanted = *play.stuck.get(&block)?;
        let helper = providers.of(play, block, wanted);
        links.push((block, wanted, helper));
        match helper {
            Some((other, _)) => block = other,
            None => {
                let last = links.len() - 1;
                links.drain(..last);
                return Some(Chain { links });
            }
        }
    }
}

impl Chain {
    fn blocks(&self) -> Vec<u32> {
        self.links.iter().map(|(block, ..)| *block).collect()
    }

    fn problem(&self, play: &Play<'_>) -> Problem {
        let line = |&(block, wanted, helper): &(u32, Wanted, Option<(u32, u32)>)| {
            let who = play.stands(block);
            Line {
                rank: play.rank(who),
                other: helper.map(|(other, _)| play.program.blocks[other as usize].rank as usize),
                at: play.at(who),
                text: format!("{} waits {}", play.subject(who), show(play, wanted, helper)),
            }
        };
        let mut story: Vec<Line> = self.links.iter().take(24).map(line).collect();
        if self.links.len() > story.len() {
            let more = format!("and {} more", self.links.len() - story.len());
            let at = story.last().map(|line| line.at).unwrap_or_default();
            story.push(Line { rank: None, other: None, at, text: more });
        }
        let mut ranks: Vec<u32> = (self.links.iter())
            .map(|(block, ..)| play.program.blocks[*block as usize].rank)
            .collect();
        ranks.sort_unstable();
        ranks.dedup();
        let (first, wanted, helper) = self.links[0];
        let title = match (helper, self.links.len()) {
            (None, _) => {
                let block = &play.program.blocks[first as usize];
                let what = lacks(wanted);
                format!("block {} of rank {} waits for ever: {what}", block.id, block.rank)
            }
            (_, 1) => format!("a block of rank {} waits for itself", ranks[0]),
            _ if ranks.len() == 1 => format!("blocks of rank {} wait in a circle", ranks[0]),
            _ => format!("{} wait in a circle", show_ranks(&ranks)),
        };
        let slots = self.links.iter().any(|(_, wanted, _)| matches!(wanted, Wanted::Slot(_)));
        let mut help = Vec::new();
        match wanted {
            Wanted::Flag(..) if helper.is_none() => {
                help.push("set `hasdep=\"1\"` at the step that `depid` and `deps` name".to_owned());
            }
            _ if helper.is_none() => {}
            _ if slots => help.push(
                "receive earlier, or send less before: what does not fit the slots waits".into(),
            ),
            _ => help.push("change the order of the steps so that one of them can go first".into()),
        }
        Problem {
            kind: ProblemKind::Broken(Check::Deadlock),
            title,
            at: story.first().map(|line| line.at).unwrap_or_default(),
            sizes: None,
            story,
            help,
        }
    }
}

impl Play<'_> {
    /// The step that a block is at.
    pub(super) fn stands(&self, block: u32) -> Who {
        Who::Step { block, step: self.positions[block as usize].step }
    }
}

/// What is missing if nobody provides it.
fn lacks(wanted: Wanted) -> &'static str {
    match wanted {
        Wanted::Message(_) => "nobody sends what it receives",
        Wanted::Slot(_) => "nobody receives what it sends",
        Wanted::Flag(None, ..) => "there is no such block",
        Wanted::Flag(..) => "no step sets the flag",
        Wanted::Signal(_) => "nobody signals any more",
        Wanted::Semaphore(_) => "nobody releases the semaphore any more",
        Wanted::Barrier(_) => "not as many blocks come to the barrier",
        Wanted::Packet(_) => "nobody writes the packet in this run",
    }
}

/// What a block waits for, in words.
fn show(play: &Play<'_>, wanted: Wanted, helper: Option<(u32, u32)>) -> String {
    let program = play.program;
    let of = helper.map_or_else(String::new, |(block, step)| {
        let who = Who::Step { block, step };
        let at = play.at(who);
        let rank = program.blocks[block as usize].rank;
        format!(": rank {rank} {} would be it (line {})", play.subject(who), at.line)
    });
    match wanted {
        Wanted::Message(fifo) => {
            let fifo = &program.fifos[fifo as usize];
            format!("for a message from rank {} over channel {}{of}", fifo.from, fifo.channel)
        }
        Wanted::Slot(fifo) => {
            let fifo = &program.fifos[fifo as usize];
            format!(
                "for room in its connection to rank {} over channel {}, whose {} slots are \
                 full{of}",
                fifo.to, fifo.channel, fifo.slots
            )
        }
        Wanted::Flag(_, block, step) => format!("for block {block} to come to step {step}{of}"),
        Wanted::Signal(signal) => {
            let signal = &program.signals[signal as usize];
            format!("for a signal from rank {} over {}{of}", signal.from, signal.name)
        }
        Wanted::Semaphore(semaphore) => {
            format!("for semaphore {}{of}", program.semaphores[semaphore as usize].id)
        }
        Wanted::Barrier(barrier) => {
            let come = play.arrived[barrier as usize].len();
            let id = program.barriers[barrier as usize].id;
            format!("at barrier {id}, where {come} have come{of}")
        }
        Wanted::Packet(cell) => format!("for the packet in {}{of}", program.cells.show(cell)),
    }
}

/// The steps that provide what blocks wait for, in order of blocks.
struct Providers {
    steps: HashMap<Wanted, Vec<(u32, u32)>>,
}

impl Providers {
    fn new(play: &Play<'_>) -> Self {
        let mut steps: HashMap<Wanted, Vec<(u32, u32)>> = HashMap::new();
        for (block, of) in (0..).zip(&play.program.blocks) {
            for (at, step) in (0..).zip(&of.steps) {
                for act in &step.acts {
                    let mut add = |wanted: Wanted| {
                        steps.entry(wanted.key()).or_default().push((block, at));
                    };
                    match act {
                        Act::Move { from, to, .. } => {
                            for place in from {
                                if let Place::Message(fifo) = place {
                                    add(Wanted::Slot(*fifo));
                                }
                            }
                            for place in to {
                                match *place {
                                    Place::Message(fifo) => add(Wanted::Message(fifo)),
                                    Place::Packet { cell, stride } => {
                                        add(Wanted::Packet(cell));
                                        if stride > 0 {
                                            add(Wanted::Packet(cell + stride));
                                        }
                                    }
                                    Place::Cell { .. } => {}
                                }
                            }
                        }
                        Act::Post { signal, .. } => add(Wanted::Signal(*signal)),
                        Act::Release(semaphore) => add(Wanted::Semaphore(*semaphore)),
                        Act::Barrier { barrier, .. } => add(Wanted::Barrier(*barrier)),
                        Act::Flag(_) => add(Wanted::Flag(Some(block), 0, 0)),
                        _ => {}
                    }
                }
            }
        }
        Self { steps }
    }

    /// A step that is still to come and would let the block go on.
    fn of(&self, play: &Play<'_>, block: u32, wanted: Wanted) -> Option<(u32, u32)> {
        let steps = self.steps.get(&wanted.key())?;
        let is_to_come = |&&(other, step): &&(u32, u32)| {
            let is_late = match wanted {
                Wanted::Flag(_, _, number) => {
                    play.program.blocks[other as usize].steps[step as usize].number >= number
                }
                Wanted::Barrier(barrier) => {
                    other != block && !play.arrived[barrier as usize].contains(&other)
                }
                _ => true,
            };
            let Position { run, step: now, .. } = play.positions[other as usize];
            // In a later run it comes again, but a packet only belongs to this one.
            let again = run + 1 < play.program.runs && !matches!(wanted, Wanted::Packet(_));
            is_late && (step >= now || again)
        };
        steps.iter().find(is_to_come).copied()
    }
}
