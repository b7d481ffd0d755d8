//! Captures and graphs.
//!
//! A graph knows the dependencies of each piece of work. A GPU runs independent work in any order;
//! here it runs in the reverse order of enqueueing, so that a wrong assumption of order shows. Only
//! NCCL's calls stay in order.

use std::collections::{HashMap, HashSet};
use std::ptr;
use std::thread::{self, ThreadId};

use crate::code::Code;
use crate::queue::Work;
use crate::state::{Answer, Refusal, State};

/// The capture that streams take part in, or took part in.
pub(crate) struct Capture {
    /// The stream on which it began.
    pub(crate) origin: u64,
    thread: ThreadId,
    /// Other threads may ask nothing either, unless they are relaxed.
    global: bool,
    /// The first thing that broke it.
    broken: Option<String>,
    /// The work of each launch.
    nodes: Vec<Node>,
    /// For each stream, the dependencies of its next work.
    last: HashMap<u64, HashSet<usize>>,
    /// The last NCCL call.
    last_call: Option<usize>,
    /// Streams with work that the origin does not wait for yet.
    unjoined: HashSet<u64>,
    /// Recordings: the event, the streams with work before it, and that work.
    points: Vec<(u64, HashSet<u64>, HashSet<usize>)>,
    /// Whether the origin is still capturing.
    open: bool,
}

/// A piece of work, and its dependencies.
struct Node {
    work: Work,
    after: HashSet<usize>,
}

impl Capture {
    fn new(origin: u64, global: bool) -> Self {
        Self {
            origin,
            thread: thread::current().id(),
            global,
            broken: None,
            nodes: Vec::new(),
            last: HashMap::new(),
            last_call: None,
            unjoined: HashSet::new(),
            points: Vec::new(),
            open: true,
        }
    }

    fn add(&mut self, stream: u64, work: Work) {
        let number = self.nodes.len();
        let last = self.last.entry(stream).or_default();
        let mut after = std::mem::replace(last, HashSet::from([number]));
        if let Work::Again { .. } = work {
            after.extend(self.last_call.replace(number));
        }
        self.nodes.push(Node { work, after });
    }

    /// All work, in a permitted order.
    fn in_order(&self) -> Vec<&Work> {
        let (mut done, mut all) = (HashSet::new(), Vec::new());
        let mut left: Vec<usize> = (0..self.nodes.len()).collect();
        // The first piece is always ready.
        while let Some(at) = left.iter().rposition(|it| self.nodes[*it].after.is_subset(&done)) {
            let number = left.remove(at);
            done.insert(number);
            all.push(&self.nodes[number].work);
        }
        all
    }
}

impl State {
    /// Begins a capture on an existing stream.
    pub(crate) fn begin_capture(&mut self, stream: u64, global: bool) -> Answer {
        if self.stream(stream)?.capture != 0 {
            return Err(Refusal::value(format!("stream {stream:#x} captures already")));
        }
        let capture = self.handle();
        self.stream(stream)?.capture = capture;
        self.captures.insert(capture, Capture::new(stream, global));
        Ok(())
    }

    /// Ends it: returns its graph, or why there is none.
    pub(crate) fn end_capture(&mut self, stream: u64) -> Result<u64, Refusal> {
        let capture = self.stream(stream)?.capture;
        let Some(found) = self.captures.get_mut(&capture) else {
            return Err(Refusal::value(format!("stream {stream:#x} captures nothing")));
        };
        if found.origin != stream || found.thread != thread::current().id() {
            return Err(Refusal::value("it was begun on another stream, or by another thread"));
        }
        found.open = false;
        let (broken, unjoined) = (found.broken.clone(), !found.unjoined.is_empty());
        for stream in self.streams.values_mut().filter(|stream| stream.capture == capture) {
            stream.capture = 0;
        }
        if let Some(words) = broken {
            return Err(Refusal::Misuse(Code::STREAM_CAPTURE_INVALIDATED, words));
        }
        if unjoined {
            // Abandoned captures end this way.
            return Err(Refusal::Plain(Code::STREAM_CAPTURE_UNJOINED));
        }
        let graph = self.handle();
        self.graphs.insert(graph, capture);
        Ok(graph)
    }

    /// Takes work enqueued on a capturing stream; returns work that is not captured.
    pub(crate) fn captured(&mut self, stream: u64, work: Work) -> Option<Work> {
        let capture = self.streams.get(&stream).map_or(0, |stream| stream.capture);
        let Some(found) = self.captures.get_mut(&capture) else { return Some(work) };
        if found.origin != stream {
            found.unjoined.insert(stream);
        }
        found.add(stream, work);
        None
    }

    /// Records an event on a capturing stream.
    pub(crate) fn leaves_a_point(&mut self, capture: u64, stream: u64, event: u64) -> Answer {
        if let Some(found) = self.captures.get_mut(&capture) {
            found.points.retain(|(known, ..)| *known != event);
            let before = match stream == found.origin {
                true => HashSet::new(),
                false => HashSet::from([stream]),
            };
            let work = found.last.get(&stream).cloned().unwrap_or_default();
            found.points.push((event, before, work));
        }
        Ok(())
    }

    /// A stream waits for an event; returns whether that is part of a capture.
    pub(crate) fn joins(&mut self, stream: u64, event: u64) -> Result<bool, Refusal> {
        let (of_stream, of_event) = (self.stream(stream)?.capture, self.event(event)?.capture);
        let of_event =
            if self.captures.get(&of_event).is_some_and(|it| it.open) { of_event } else { 0 };
        match (of_stream, of_event) {
            (0, 0) => return Ok(false),
            (0, capture) => self.stream(stream)?.capture = capture,
            (own, other) if own != other => {
                let words = format!("stream {stream:#x} waits for what is outside of its capture");
                return Err(self.breaks(own, Code::STREAM_CAPTURE_ISOLATION, words));
            }
            _ => {}
        }
        if let Some(found) = self.captures.get_mut(&of_event) {
            let point = found.points.iter().find(|(known, ..)| *known == event).cloned();
            let (_, before, work) = point.unwrap_or_default();
            found.last.entry(stream).or_default().extend(work);
            match stream == found.origin {
                true => found.unjoined.retain(|stream| !before.contains(stream)),
                false => drop(found.unjoined.insert(stream)),
            }
        }
        Ok(true)
    }

    fn breaks(&mut self, capture: u64, code: Code, words: String) -> Refusal {
        if let Some(found) = self.captures.get_mut(&capture) {
            found.broken.get_or_insert_with(|| words.clone());
        }
        Refusal::Misuse(code, words)
    }

    /// Refuses a query of a capturing stream, which breaks the capture.
    pub(crate) fn is_live(&mut self, stream: u64) -> Answer {
        let capture = self.stream(stream)?.capture;
        if capture == 0 {
            return Ok(());
        }
        let words = format!("stream {stream:#x} captures, and is asked how far it is");
        Err(self.breaks(capture, Code::STREAM_CAPTURE_UNSUPPORTED, words))
    }

    /// Refuses a call that a thread may not make while it captures, which breaks the capture.
    pub(crate) fn is_no_capturer(&mut self, what: &str) -> Answer {
        let thread = thread::current().id();
        let is_relaxed = self.relaxed.contains(&thread);
        let forbids = |(_, capture): &(&u64, &Capture)| {
            let concerns = capture.thread == thread || capture.global && !is_relaxed;
            capture.open && concerns
        };
        let Some((&capture, found)) = self.captures.iter().find(forbids) else { return Ok(()) };
        let who = if found.thread == thread { "this" } else { "another" };
        let words = format!("{what} while {who} thread captures");
        Err(self.breaks(capture, Code::STREAM_CAPTURE_UNSUPPORTED, words))
    }

    /// Refuses a query of an event that was recorded in a capture.
    pub(crate) fn is_not_captured(&mut self, event: u64) -> Answer {
        match self.event(event)?.capture {
            0 => Ok(()),
            _ => {
                let words = format!("event {event:#x} was recorded in a capture");
                Err(Refusal::Misuse(Code::CAPTURED_EVENT, words))
            }
        }
    }

    /// Enqueues all captured work.
    pub(crate) fn launch_graph(&mut self, executable: u64, stream: u64) -> Answer {
        let capture = self.executable(executable)?;
        self.stream(stream)?;
        let found = self.captures.get(&capture);
        let work: Vec<Work> =
            found.map(Capture::in_order).unwrap_or_default().into_iter().cloned().collect();
        for work in work {
            self.enqueue(stream, work.launched());
        }
        Ok(())
    }

    pub(crate) fn graph(&self, graph: u64) -> Result<u64, Refusal> {
        let words = || format!("{graph:#x} is no graph of this library");
        let found = self.graphs.get(&graph).copied();
        found.ok_or_else(|| Refusal::Misuse(Code::INVALID_HANDLE, words()))
    }

    pub(crate) fn executable(&self, executable: u64) -> Result<u64, Refusal> {
        let words = || format!("{executable:#x} is nothing to launch");
        let found = self.executables.get(&executable).copied();
        found.ok_or_else(|| Refusal::Misuse(Code::INVALID_HANDLE, words()))
    }

    /// Whether a graph of a capture exists.
    pub(crate) fn is_alive(&self, capture: u64) -> bool {
        let named = |named: &u64| *named == capture;
        let is_open = self.captures.get(&capture).is_some_and(|it| it.open);
        is_open || self.graphs.values().any(named) || self.executables.values().any(named)
    }
}

impl Work {
    /// The work of one launch.
    fn launched(self) -> Self {
        let Self::Again { prepare, function, data } = self else { return self };
        let data = ptr::with_exposed_provenance_mut(data as usize);
        // SAFETY: the double of NCCL passed it with this data, for every launch.
        let data = unsafe { prepare(data) };
        Self::Call { function, data: data.expose_provenance() as u64 }
    }
}
