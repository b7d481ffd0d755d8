//! Clocks and hazards, beside sets of events that grow one by one.

use std::collections::HashSet;

use proptest::collection::vec;
use proptest::prelude::*;
use typed_nccl_match::{Clock, Use, Uses, When};

/// How many streams there are. Each has a line of its own, and one of its puts.
const STREAMS: usize = 3;

#[derive(Clone, Debug)]
enum Step {
    /// A stream does something.
    Event { stream: usize },
    /// It puts something.
    Put { stream: usize },
    /// It comes after another, whose puts have arrived or not.
    After { stream: usize, other: usize, arrived: bool },
    /// It awaits a signal of another, raised now: its earlier puts have arrived.
    Signal { stream: usize, other: usize },
}

fn steps(most: usize) -> impl Strategy<Value = Vec<Step>> {
    let stream = 0..STREAMS;
    let step = prop_oneof![
        stream.clone().prop_map(|stream| Step::Event { stream }),
        stream.clone().prop_map(|stream| Step::Put { stream }),
        (stream.clone(), stream.clone(), any::<bool>())
            .prop_map(|(stream, other, arrived)| Step::After { stream, other, arrived }),
        (stream.clone(), stream).prop_map(|(stream, other)| Step::Signal { stream, other }),
    ];
    vec(step, 0..most)
}

/// What a stream knows: events that are over, and puts that have left, each by line and number.
#[derive(Clone, Default)]
struct Sets {
    known: HashSet<(usize, u64)>,
    sent: HashSet<(usize, u64)>,
}

/// Streams with clocks, and with sets beside them.
#[derive(Default)]
struct Both {
    clocks: [Clock; STREAMS],
    sets: [Sets; STREAMS],
    counts: [u64; 2 * STREAMS],
}

impl Both {
    /// The line and the number of what happens now; none if nothing does.
    fn take(&mut self, step: &Step) -> Option<(usize, usize, u64)> {
        let (clocks, sets) = (&mut self.clocks, &mut self.sets);
        match *step {
            Step::Event { stream } => {
                self.counts[stream] += 1;
                let event = self.counts[stream];
                clocks[stream].learn(stream, event);
                sets[stream].known.insert((stream, event));
                Some((stream, stream, event))
            }
            Step::Put { stream } => {
                let line = STREAMS + stream;
                self.counts[line] += 1;
                let event = self.counts[line];
                clocks[stream].send(line, event);
                sets[stream].sent.insert((line, event));
                Some((stream, line, event))
            }
            Step::After { stream, other, arrived } => {
                let (clock, theirs) = (clocks[other].clone(), sets[other].clone());
                sets[stream].known.extend(theirs.known);
                match arrived {
                    true => {
                        clocks[stream].join_arrived(&clock);
                        sets[stream].known.extend(theirs.sent);
                    }
                    false => {
                        clocks[stream].join(&clock);
                        sets[stream].sent.extend(theirs.sent);
                    }
                }
                None
            }
            Step::Signal { stream, other } => {
                let (mut clock, mut theirs) = (clocks[other].clone(), sets[other].clone());
                let line = STREAMS + other;
                clock.arrived(line);
                theirs.known.extend(theirs.sent.iter().filter(|put| put.0 == line));
                clocks[stream].join(&clock);
                sets[stream].known.extend(theirs.known);
                sets[stream].sent.extend(theirs.sent);
                None
            }
        }
    }
}

proptest! {
    #[test]
    fn clocks_know_what_a_chain_leads_from(steps in steps(40)) {
        let mut both = Both::default();
        for step in &steps {
            both.take(step);
            for (clock, sets) in both.clocks.iter().zip(&both.sets) {
                for line in 0..2 * STREAMS {
                    for event in 1..=both.counts[line] {
                        let known = sets.known.contains(&(line, event));
                        prop_assert_eq!(clock.knows(line, event), known, "{} of {}", event, line);
                    }
                }
            }
        }
    }

    /// Of uses without an order the first is found, and none that has one. What is no put is the
    /// owner's own, which memory orders.
    #[test]
    fn hazards_are_found_and_none_is_invented(
        steps in steps(40),
        spans in vec((0..6_usize, 0..6_usize, any::<bool>()), 40),
    ) {
        let (mut both, mut uses) = (Both::default(), Uses::default());
        let mut all: Vec<Known> = Vec::new();
        for (step, (start, bytes, writes)) in steps.iter().zip(spans) {
            let end = start + bytes;
            let overlaps = |earlier: &Known| start < earlier.end && earlier.start < end;
            if let Step::Event { stream } = *step {
                let own = |one: &&Known| bytes > 0 && !one.is_put && (writes || one.write) && overlaps(one);
                for earlier in all.iter().filter(own) {
                    both.clocks[stream].join(&earlier.clock);
                    both.sets[stream].extend(&earlier.sets);
                }
            }
            let (clocks, sets) = (both.clocks.clone(), both.sets.clone());
            let Some((stream, line, event)) = both.take(step).filter(|_| bytes > 0) else {
                continue;
            };
            let is_put = line >= STREAMS;
            let write = writes || is_put;
            let clash = |earlier: &Known| {
                let ordered = sets[stream].known.contains(&(earlier.line, earlier.event))
                    || (earlier.is_put && earlier.line == line);
                let conflict = (is_put || earlier.is_put) && (write || earlier.write);
                conflict && overlaps(earlier) && !ordered
            };
            let expected: HashSet<usize> =
                (0..all.len()).filter(|&earlier| clash(&all[earlier])).collect();
            let when = When { line, event, after: clocks[stream].clone() };
            let next = Use::new((start, end), write, is_put, all.len(), &when);
            let found = uses.add(next, &when.after, || &clocks[0]);
            let found: HashSet<usize> = found.iter().map(|one| one.by).collect();
            prop_assert!(found.is_subset(&expected), "{:?} of {:?}", found, expected);
            prop_assert_eq!(found.is_empty(), expected.is_empty());
            if !found.is_empty() {
                break;
            }
            let (clock, sets) = (both.clocks[stream].clone(), both.sets[stream].clone());
            all.push(Known { start, end, write, is_put, line, event, clock, sets });
        }
    }
}

/// A use, and what is known behind it.
struct Known {
    start: usize,
    end: usize,
    write: bool,
    is_put: bool,
    line: usize,
    event: u64,
    clock: Clock,
    sets: Sets,
}

impl Sets {
    fn extend(&mut self, other: &Self) {
        self.known.extend(&other.known);
        self.sent.extend(&other.sent);
    }
}

#[test]
fn so_many_uses_are_remembered_and_what_is_known_goes_first() {
    let mut uses = Uses::default();
    let mut known = Clock::default();
    known.learn(1, 1);
    let when = |line, event| When { line, event, after: Clock::default() };
    let add = |uses: &mut Uses<usize>, line: usize, at: usize| {
        let when = when(line, 1);
        let one = Use::new((at, at + 1), true, true, line, &when);
        uses.add(one, &when.after, || &known).len()
    };
    assert_eq!(add(&mut uses, 0, 0) + add(&mut uses, 1, 1), 0);
    for line in 2..513 {
        assert_eq!(add(&mut uses, line, line), 0);
    }
    // What everybody knows was forgotten, so the oldest one was not.
    assert_eq!((add(&mut uses, 1000, 0), add(&mut uses, 1001, 1)), (1, 0));
}

/// Whoever reads after it knows that it is over; another reader need not.
#[test]
fn a_read_does_not_stand_for_the_write_before_it() {
    let mut uses = Uses::default();
    let mut add = |line: usize, is_put: bool, after: Clock| {
        let when = When { line, event: 1, after };
        let one = Use::new((0, 4), is_put, is_put, line, &when);
        let found = uses.add(one, &when.after, Box::<Clock>::default);
        found.iter().map(|earlier| earlier.by).collect::<Vec<_>>()
    };
    let mut after = Clock::default();
    after.learn(9, 1);
    assert_eq!(add(9, true, Clock::default()), []);
    assert_eq!(add(1, false, after), []);
    assert_eq!(add(2, false, Clock::default()), [9]);
}

/// Nothing behind a lost order is compared, on whatever way it comes, until all of that
/// communicator have met.
#[test]
fn what_follows_a_lost_order_is_compared_with_nothing() {
    let clash = |earlier: &Clock, later: &Clock| {
        let mut uses = Uses::default();
        let mut add = |line: usize, after: &Clock| {
            let when = When { line, event: 1, after: after.clone() };
            let one = Use::new((0, 4), true, true, line, &when);
            uses.add(one, &when.after, Box::<Clock>::default).len()
        };
        add(1, earlier) + add(2, later) > 0
    };
    let well = Clock::default();
    let lost = |of: u64| {
        let mut clock = Clock::default();
        clock.lose_order(of);
        clock
    };
    assert!(clash(&well, &well));
    assert!(!clash(&lost(7), &well) && !clash(&well, &lost(7)));
    let mut heard = Clock::default();
    heard.join_arrived(&lost(7));
    assert!(!clash(&heard, &well));
    heard.regain_order(8);
    assert!(!clash(&heard, &well));
    heard.regain_order(7);
    assert!(clash(&heard, &well));
    let mut both = lost(7);
    both.join(&lost(8));
    both.regain_order(7);
    both.regain_order(8);
    assert!(!clash(&both, &well));
}
