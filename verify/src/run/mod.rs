//! Plays a schedule: one execution that goes as far as any can.
//!
//! Connections are queues with one end on each side, flags and counters only grow, and a block does
//! one step after the other. So what one execution cannot do, none can: if some blocks never end,
//! that is a deadlock. Only semaphores that several blocks acquire depend on the order.
//!
//! What is unordered is not seen in one execution, but in its clocks: each use of a cell is
//! compared with the last ones, by what surely came before.

mod block;
mod lines;
mod memory;
mod order;
mod picture;
mod remedy;
mod result;
mod stuck;
mod user;
mod value;

use std::collections::{HashMap, HashSet, VecDeque};
use std::rc::Rc;

use typed_nccl_plan::verdict::{Check, Problem, ProblemKind};

use crate::limits;
use crate::program::Program;
use lines::{Lines, Past};
use memory::{Memory, Who};
use value::{Inputs, Value};

/// What was found, each with a picture if there is one.
#[derive(Default, Debug)]
pub(crate) struct Found {
    pub(crate) problems: Vec<(Problem, Option<String>)>,
}

/// Plays a program and says what is wrong with it.
///
/// Chunks are taken to be so large that each is a message of its own. If blocks wait for each other
/// then, what small chunks would do is looked at too.
pub(crate) fn play(program: &Program) -> Found {
    let (large, is_stuck) = play_with(program, Chunks::Large);
    if !is_stuck || program.fifos.is_empty() {
        return large;
    }
    let (small, is_stuck) = play_with(program, Chunks::Small);
    if is_stuck {
        return large;
    }
    let is_deadlock = |problem: &Problem| problem.kind == ProblemKind::Broken(Check::Deadlock);
    let mut problems: Vec<_> =
        large.problems.into_iter().filter(|(problem, _)| is_deadlock(problem)).collect();
    for (problem, _) in &mut problems {
        problem.title += ", once their chunks are large";
        problem.help.push(
            "or lower `maxBytes`: chunks of one step that fit one message need one slot".to_owned(),
        );
    }
    problems.extend(small.problems);
    Found { problems }
}

/// The same, and whether it is a deadlock.
fn play_with(program: &Program, chunks: Chunks) -> (Found, bool) {
    let mut play = Play::new(program, chunks);
    play.start();
    while let Some(block) = play.ready.pop_front() {
        play.go_on(block);
        if play.work > limits::SUMS {
            play.too_large();
            return (play.found, false);
        }
    }
    let is_stuck = !play.stuck.is_empty();
    if is_stuck {
        stuck::report(&mut play);
    } else {
        play.left_over();
    }
    (play.found, is_stuck)
}

/// How large chunks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Chunks {
    /// Those of a step are one message.
    Small,
    /// Each is a message.
    Large,
}

/// What a block waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Wanted {
    /// A message of a connection.
    Message(u32),
    /// Room in one.
    Slot(u32),
    /// A flag of a block, if there is such a block.
    Flag(Option<u32>, i64, u32),
    Signal(u32),
    Semaphore(u32),
    Barrier(u32),
    Packet(u32),
}

/// Where a block is.
#[derive(Clone, Copy, Default, Debug)]
struct Position {
    run: u32,
    step: u32,
    act: u32,
}

struct Message {
    /// The sender's step.
    step: u32,
    value: Value,
    past: Rc<Past>,
}

#[derive(Default)]
struct Counter {
    /// What has come and was not yet consumed.
    posted: VecDeque<Posted>,
    /// What may be consumed though nothing has come.
    initial: i64,
}

/// A signal, or the release of a semaphore.
#[derive(Clone, Default)]
struct Posted {
    past: Rc<Past>,
    /// What was known when its kernel began.
    began: Rc<Past>,
    relaxed: bool,
}

struct Play<'a> {
    program: &'a Program,
    chunks: Chunks,
    inputs: Inputs,
    lines: Lines,
    memory: Memory,
    positions: Vec<Position>,
    /// What each block began its run with.
    began: Vec<Rc<Past>>,
    /// The blocks of each rank that are still in their run.
    running: Vec<u32>,
    fifos: Vec<VecDeque<Message>>,
    /// Of each block's run, the flags that it has set, in order.
    flags: Vec<Vec<(u32, Rc<Past>)>>,
    signals: Vec<Counter>,
    semaphores: Vec<Counter>,
    /// The blocks that have come to a barrier.
    arrived: Vec<Vec<u32>>,
    /// The blocks that have left a barrier that they waited at, and may go on.
    passed: HashSet<u32>,
    ready: VecDeque<u32>,
    waiting: HashMap<Wanted, Vec<u32>>,
    /// What the blocks that cannot go on wait for.
    stuck: HashMap<u32, Wanted>,
    found: Found,
    told: HashSet<(Who, Who)>,
    races: usize,
    unwritten: HashSet<Who>,
    wrong_ranks: usize,
    work: u64,
}

impl<'a> Play<'a> {
    fn new(program: &'a Program, chunks: Chunks) -> Self {
        let blocks = program.blocks.len();
        let semaphores = program
            .semaphores
            .iter()
            .map(|semaphore| Counter { initial: semaphore.initial, ..Counter::default() });
        let mut running = vec![0; program.ranks() as usize];
        for block in &program.blocks {
            running[block.rank as usize] += 1;
        }
        Self {
            program,
            chunks,
            inputs: Inputs::new(&program.cells),
            lines: Lines::new(program),
            memory: Memory::new(program.cells.total()),
            positions: vec![Position::default(); blocks],
            began: vec![Rc::default(); blocks],
            running,
            fifos: program.fifos.iter().map(|_| VecDeque::new()).collect(),
            flags: vec![Vec::new(); blocks],
            signals: program.signals.iter().map(|_| Counter::default()).collect(),
            semaphores: semaphores.collect(),
            arrived: vec![Vec::new(); program.barriers.len()],
            passed: HashSet::new(),
            ready: VecDeque::new(),
            waiting: HashMap::new(),
            stuck: HashMap::new(),
            found: Found::default(),
            told: HashSet::new(),
            races: 0,
            unwritten: HashSet::new(),
            wrong_ranks: 0,
            work: 0,
        }
    }

    /// Plays a block until it waits.
    fn go_on(&mut self, block: u32) {
        self.stuck.remove(&block);
        loop {
            match self.act(block) {
                Ok(true) => {}
                Ok(false) => return,
                Err(wanted) => {
                    self.stuck.insert(block, wanted);
                    let list = self.waiting.entry(wanted.key()).or_default();
                    list.push(block);
                    return;
                }
            }
        }
    }

    /// Something has come that blocks may wait for.
    fn wake(&mut self, wanted: Wanted) {
        if let Some(blocks) = self.waiting.remove(&wanted.key()) {
            self.ready.extend(blocks);
        }
    }

    fn too_large(&mut self) {
        let title = "there was too much to add up: what it computes was not followed to the end";
        self.tell(Problem {
            kind: ProblemKind::TooLarge,
            title: title.to_owned(),
            at: Default::default(),
            sizes: None,
            story: Vec::new(),
            help: Vec::new(),
        });
    }

    fn tell(&mut self, problem: Problem) {
        self.found.problems.push((problem, None));
    }
}

impl Wanted {
    /// What wakes whoever waits for it: flags of one block do so together.
    fn key(self) -> Self {
        match self {
            Self::Flag(block, ..) => Self::Flag(block, 0, 0),
            other => other,
        }
    }
}
