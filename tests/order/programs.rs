//! Random programs, compared with the same steps one after the other.

use std::thread;
use std::time::Duration;

use proptest::prelude::*;
use proptest::test_runner::{Config, TestCaseError, TestRunner};
use typed_nccl::error::Error;
use typed_nccl::{Buffer, Host, Mark, Result, Stream};

#[derive(Clone, Debug)]
struct Program {
    streams: usize,
    buffers: usize,
    len: usize,
    steps: Vec<Step>,
}

/// Streams, buffers and marks count modulo how many there are.
#[derive(Clone, Debug)]
enum Step {
    /// Reads up to two buffers and changes a third.
    Launch {
        stream: usize,
        reads: [usize; 2],
        write: usize,
        salt: u64,
        nap: u8,
    },
    /// Reads one half of a buffer and changes the other.
    Halves {
        stream: usize,
        buffer: usize,
        salt: u64,
        nap: u8,
    },
    /// Takes marks and remembers the last one.
    Mark {
        stream: usize,
        times: usize,
    },
    WaitFor {
        stream: usize,
        mark: usize,
    },
    Sync {
        stream: usize,
    },
    /// The host overwrites a buffer.
    Write {
        buffer: usize,
        salt: u64,
    },
    /// The host reads a buffer.
    Read {
        buffer: usize,
    },
    /// Replaces a stream, which may have unfinished work.
    Reopen {
        stream: usize,
    },
    /// Replaces a buffer, which may be in use, by a new one of zeros.
    Replace {
        buffer: usize,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let (stream, buffer) = (0_usize..3, 0_usize..4);
    let launch = (stream.clone(), [buffer.clone(), buffer.clone()], buffer.clone(), 0_u64..99);
    let halves = (stream.clone(), buffer.clone(), 0_u64..99, any::<u8>());
    prop_oneof![
        10 => (launch, any::<u8>()).prop_map(|((stream, reads, write, salt), nap)| {
            Step::Launch { stream, reads, write, salt, nap }
        }),
        2 => halves.prop_map(|(stream, buffer, salt, nap)| {
            Step::Halves { stream, buffer, salt, nap }
        }),
        2 => (stream.clone(), prop_oneof![4 => 1_usize..3, 1 => 30_usize..40])
            .prop_map(|(stream, times)| Step::Mark { stream, times }),
        2 => (stream.clone(), 0_usize..9).prop_map(|(stream, mark)| Step::WaitFor { stream, mark }),
        1 => stream.clone().prop_map(|stream| Step::Sync { stream }),
        1 => (buffer.clone(), 0_u64..99).prop_map(|(buffer, salt)| Step::Write { buffer, salt }),
        1 => buffer.clone().prop_map(|buffer| Step::Read { buffer }),
        1 => stream.prop_map(|stream| Step::Reopen { stream }),
        1 => buffer.prop_map(|buffer| Step::Replace { buffer }),
    ]
}

fn program() -> impl Strategy<Value = Program> {
    (2_usize..=3, 1_usize..=4, 0_usize..6, prop::collection::vec(step(), 1..25))
        .prop_map(|(streams, buffers, len, steps)| Program { streams, buffers, len, steps })
}

/// Changes `to` in a way that depends on the order of changes, sleeping on the way.
fn churn(to: &mut [u64], from: &[&[u64]], salt: u64, nap: u8) {
    for i in 0..to.len() {
        if i == to.len() / 2 {
            thread::sleep(Duration::from_micros(nap.into()));
        }
        to[i] = to[i].wrapping_mul(31).wrapping_add(salt + 1);
        for from in from {
            to[i] = to[i].wrapping_mul(17) ^ from.get(i).copied().unwrap_or(salt);
        }
    }
}

/// The device and the model, step by step.
struct Run {
    host: Host,
    streams: Vec<Stream<Host>>,
    marks: Vec<Mark<Host>>,
    buffers: Vec<Buffer<u64, Host>>,
    model: Vec<Vec<u64>>,
}

impl Run {
    fn of(program: &Program) -> Result<(), TestCaseError> {
        let fail = |error: Error| TestCaseError::fail(error.to_string());
        let mut run = Self::start(program).map_err(fail)?;
        for step in &program.steps {
            run.step(step).map_err(fail)?;
            if let Step::Read { buffer } = step {
                run.look(buffer % program.buffers)?;
            }
        }
        (0..program.buffers).try_for_each(|buffer| run.look(buffer))
    }

    fn start(program: &Program) -> Result<Self> {
        let host = Host::local()?;
        let streams: Result<_> = (0..program.streams).map(|_| host.stream()).collect();
        let buffers: Result<_> = (0..program.buffers).map(|_| host.zeros(program.len)).collect();
        let model = vec![vec![0; program.len]; program.buffers];
        Ok(Self { host, streams: streams?, marks: Vec::new(), buffers: buffers?, model })
    }

    fn look(&self, buffer: usize) -> Result<(), TestCaseError> {
        let found = self.buffers[buffer].to_vec();
        let found = found.map_err(|error| TestCaseError::fail(error.to_string()))?;
        prop_assert_eq!(&found, &self.model[buffer], "buffer {}", buffer);
        Ok(())
    }

    fn step(&mut self, step: &Step) -> Result<()> {
        let (streams, buffers) = (self.streams.len(), self.buffers.len());
        match *step {
            Step::Launch { stream, reads, write, salt, nap } => {
                let write = write % buffers;
                let mut reads = reads.map(|read| read % buffers).to_vec();
                reads.dedup();
                reads.retain(|&read| read != write);
                self.launch(stream % streams, &reads, write, salt, nap)
            }
            Step::Halves { stream, buffer, salt, nap } => {
                let (stream, buffer) = (&self.streams[stream % streams], buffer % buffers);
                let x = &mut self.buffers[buffer];
                let middle = x.len() / 2;
                let (low, mut high) = x.all_mut().split_at_mut(middle);
                let (from, to) = self.model[buffer].split_at_mut(middle);
                churn(to, &[from], salt, 0);
                stream.launch((&low, &mut high), move |(low, high), ()| {
                    churn(high, &[low], salt, nap);
                })
            }
            Step::Mark { stream, times } => {
                let marks = (0..times).map(|_| self.streams[stream % streams].mark());
                self.marks.extend(marks.collect::<Result<Vec<_>>>()?.pop());
                Ok(())
            }
            Step::WaitFor { stream, mark } => match self.marks.len() {
                0 => Ok(()),
                marks => self.streams[stream % streams].wait_for(&self.marks[mark % marks]),
            },
            Step::Sync { stream } => self.streams[stream % streams].sync(),
            Step::Write { buffer, salt } => {
                churn(&mut self.model[buffer % buffers], &[], salt, 0);
                self.buffers[buffer % buffers].copy_from(&self.model[buffer % buffers])
            }
            Step::Read { .. } => Ok(()),
            Step::Reopen { stream } => {
                self.streams[stream % streams] = self.host.stream()?;
                Ok(())
            }
            Step::Replace { buffer } => {
                let buffer = buffer % buffers;
                self.model[buffer].fill(0);
                self.buffers[buffer] = self.host.zeros(self.model[buffer].len())?;
                Ok(())
            }
        }
    }

    fn launch(
        &mut self,
        stream: usize,
        reads: &[usize],
        write: usize,
        salt: u64,
        nap: u8,
    ) -> Result<()> {
        let from: Vec<Vec<u64>> = reads.iter().map(|&read| self.model[read].clone()).collect();
        let from: Vec<&[u64]> = from.iter().map(Vec::as_slice).collect();
        churn(&mut self.model[write], &from, salt, 0);
        let stream = &self.streams[stream];
        let distinct = "buffers of one launch are distinct";
        match *reads {
            [a, b] => {
                let [a, b, to] = self.buffers.get_disjoint_mut([a, b, write]).expect(distinct);
                stream.launch((&*a, &*b, to), move |(a, b, to), ()| churn(to, &[a, b], salt, nap))
            }
            [a] => {
                let [a, to] = self.buffers.get_disjoint_mut([a, write]).expect(distinct);
                stream.launch((&*a, to), move |(a, to), ()| churn(to, &[a], salt, nap))
            }
            _ => {
                let to = &mut self.buffers[write];
                stream.launch(to, move |to, ()| churn(to, &[], salt, nap))
            }
        }
    }
}

/// `PROPTEST_CASES` scales the number of cases; nothing is written to the tree.
#[test]
fn programs_run_as_if_one_step_came_after_the_other() {
    let config = Config { failure_persistence: None, ..Config::default() };
    let cases = config.cases.saturating_mul(4);
    if let Err(error) =
        TestRunner::new(Config { cases, ..config }).run(&program(), |program| Run::of(&program))
    {
        panic!("{error}");
    }
}
