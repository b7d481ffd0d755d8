//! Flight records in PyTorch's format, which `torchfrtrace` analyses.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;

use serde::Serialize;

use super::clock::nanos;
use super::journal::{Entry, Journal, Recording};
use crate::DType;
use crate::backend::Backend;
use crate::error::{Call, Operation};

/// The version of the format: PyTorch 2.6's.
const VERSION: &str = "2.10";

/// Numbers of groups of transfers begin here, so that none is a collective's: PyTorch's analyser
/// takes entries with one number for one group.
const TRANSFERS: u64 = 1 << 32;

/// The last operations of a rank:
/// [`Communicator::flight_record`](crate::Communicator::flight_record).
///
/// It has the form of PyTorch's flight recorder (version 2.10): `version`, `pg_config` with each
/// communicator's ranks, `pg_status` with the numbers of its last collectives, and `entries`,
/// oldest first. PyTorch's `torchfrtrace` reads the pickles of all ranks and says which ranks
/// differ. Groups of transfers end with an entry `nccl:coalesced`. Signals and puts, which PyTorch
/// does not have, are in `one_sided`.
///
/// See the example of [`Communicator::flight_record`](crate::Communicator::flight_record).
#[derive(Clone, Debug, Serialize)]
pub struct FlightRecord {
    version: &'static str,
    pg_config: BTreeMap<String, PgConfig>,
    pg_status: BTreeMap<String, PgStatus>,
    entries: Vec<Record>,
    one_sided: Vec<Record>,
}

#[derive(Clone, Debug, Serialize)]
struct PgConfig {
    name: String,
    desc: String,
    /// A list in Python's syntax.
    ranks: String,
}

#[derive(Clone, Debug, Default, Serialize)]
struct PgStatus {
    last_enqueued_collective: i64,
    last_started_collective: i64,
    last_completed_collective: i64,
}

/// An operation.
#[derive(Clone, Debug, Serialize)]
struct Record {
    record_id: u64,
    pg_id: u64,
    process_group: (String, String),
    collective_seq_id: u64,
    p2p_seq_id: u64,
    op_id: u64,
    profiling_name: String,
    time_created_ns: u64,
    input_sizes: Vec<Vec<usize>>,
    input_dtypes: Vec<String>,
    output_sizes: Vec<Vec<usize>>,
    output_dtypes: Vec<String>,
    state: &'static str,
    time_discovered_started_ns: Option<u64>,
    time_discovered_completed_ns: Option<u64>,
    duration_ms: Option<f64>,
    retired: bool,
    timeout_ms: u64,
    is_p2p: bool,
    frames: Vec<Frame>,
}

#[derive(Clone, Debug, Serialize)]
struct Frame {
    name: String,
    filename: String,
    line: u32,
}

impl Default for FlightRecord {
    fn default() -> Self {
        Self {
            version: VERSION,
            pg_config: BTreeMap::new(),
            pg_status: BTreeMap::new(),
            entries: Vec::new(),
            one_sided: Vec::new(),
        }
    }
}

impl FlightRecord {
    /// It as JSON.
    pub fn to_json(&self) -> String {
        // Strings and numbers always encode.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// It as a pickle of Python's, which `torchfrtrace` reads.
    pub fn to_pickle(&self) -> Vec<u8> {
        // As above.
        serde_pickle::to_vec(self, serde_pickle::SerOptions::new()).unwrap_or_default()
    }

    /// Writes a file: JSON if its name ends in `.json`, otherwise a pickle. `torchfrtrace` reads a
    /// folder in which each rank's file is named by a prefix and the rank: `fr_0`, `fr_1`.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn write(&self, path: impl AsRef<Path>) -> io::Result<()> {
        let path = path.as_ref();
        let mut file = BufWriter::new(File::create(path)?);
        match path.extension().is_some_and(|end| end == "json") {
            true => file.write_all(self.to_json().as_bytes())?,
            false => file.write_all(&self.to_pickle())?,
        }
        file.flush()
    }

    /// Adds a communicator's part, unless it is there.
    pub(super) fn join(&mut self, part: &Self) {
        if part.pg_config.keys().any(|id| self.pg_config.contains_key(id)) {
            return;
        }
        self.pg_config.extend(part.pg_config.clone());
        self.pg_status.extend(part.pg_status.clone());
        self.entries.extend_from_slice(&part.entries);
        self.one_sided.extend_from_slice(&part.one_sided);
        self.sort();
    }

    /// It has no communicator.
    pub(super) fn is_empty(&self) -> bool {
        self.pg_config.is_empty()
    }

    /// Puts the entries of several communicators into one order.
    fn sort(&mut self) {
        for records in [&mut self.entries, &mut self.one_sided] {
            records.sort_by_key(|record| (record.time_created_ns, record.pg_id, record.op_id));
            for (number, record) in (0..).zip(records) {
                record.record_id = number;
            }
        }
    }
}

/// Adds a communicator to a record.
pub(super) fn add<B: Backend>(journal: &Journal<B>, record: &mut FlightRecord) {
    let who = &journal.who;
    let name = who.id.to_string();
    let ranks: Vec<_> = who.rows.iter().map(u32::to_string).collect();
    let config = PgConfig {
        name: name.clone(),
        desc: who.name.to_owned(),
        ranks: format!("[{}]", ranks.join(", ")),
    };
    let mut status = PgStatus {
        last_enqueued_collective: -1,
        last_started_collective: -1,
        last_completed_collective: -1,
    };
    let state = journal.state.lock();
    for entry in &state.entries {
        for one in &entry.calls {
            if let Operation::Collective(_) = one.call.operation {
                let turn = i64::try_from(one.turn).unwrap_or(i64::MAX);
                status.last_enqueued_collective = turn;
                if entry.started().is_some() {
                    status.last_started_collective = turn;
                }
                if entry.completed().is_some() {
                    status.last_completed_collective = turn;
                }
            }
            let to = match one.call.operation {
                Operation::PutSignal | Operation::Signal | Operation::WaitSignal => {
                    &mut record.one_sided
                }
                _ => &mut record.entries,
            };
            to.push(written(journal, entry, one));
        }
        let is_transfer = |one: &&Recording| is_p2p(&one.call);
        if let Some(last) = entry.calls.iter().rfind(is_transfer) {
            let end = Record {
                profiling_name: "nccl:coalesced".to_owned(),
                input_sizes: Vec::new(),
                input_dtypes: Vec::new(),
                output_sizes: Vec::new(),
                output_dtypes: Vec::new(),
                ..written(journal, entry, last)
            };
            record.entries.push(end);
        }
    }
    drop(state);
    record.pg_config.insert(name.clone(), config);
    record.pg_status.insert(name, status);
    record.sort();
}

fn is_p2p(call: &Call) -> bool {
    matches!(call.operation, Operation::SendTo | Operation::RecvFrom)
}

fn written<B: Backend>(journal: &Journal<B>, entry: &Entry<B>, one: &Recording) -> Record {
    let (who, call) = (&journal.who, &one.call);
    let is_p2p = is_p2p(call);
    let (started, completed) = (entry.started(), entry.completed());
    let duration = started.zip(completed).map(|(from, to)| to.saturating_sub(from) as f64 / 1e6);
    let (input, output) = sizes(one);
    let dtype = vec![dtype(call.dtype)];
    Record {
        record_id: 0,
        pg_id: who.number,
        process_group: (who.id.to_string(), who.name.to_owned()),
        collective_seq_id: if is_p2p { one.collectives } else { one.turn },
        p2p_seq_id: if is_p2p { TRANSFERS + one.turn } else { 0 },
        op_id: one.number,
        profiling_name: name(call, who.rank),
        time_created_ns: entry.created,
        input_sizes: vec![input],
        input_dtypes: dtype.clone(),
        output_sizes: vec![output],
        output_dtypes: dtype,
        state: match (started, completed) {
            (_, Some(_)) => "completed",
            (Some(_), None) => "started",
            (None, None) => "scheduled",
        },
        time_discovered_started_ns: started,
        time_discovered_completed_ns: completed,
        duration_ms: duration,
        retired: completed.is_some(),
        timeout_ms: nanos(journal.deadline) / 1_000_000,
        is_p2p,
        frames: vec![Frame {
            name: call.operation.name().to_owned(),
            filename: call.site.file().to_owned(),
            line: call.site.line(),
        }],
    }
}

/// `nccl:all_reduce`, `nccl:send 0->1`, `nccl:recv 0<-1`
fn name(call: &Call, own: u32) -> String {
    let name = call.operation.name();
    match (call.operation, call.peer) {
        (Operation::SendTo, Some(peer)) => format!("nccl:{name} {own}->{}", peer.index()),
        (Operation::RecvFrom, Some(peer)) => format!("nccl:{name} {own}<-{}", peer.index()),
        _ => format!("nccl:{name}"),
    }
}

/// What it reads and writes. PyTorch names one tensor on both sides where a rank has only one, but
/// for gather and scatter, whose other side only the root has.
fn sizes(one: &Recording) -> (Vec<usize>, Vec<usize>) {
    let listed = |len: Option<usize>| len.map_or_else(Vec::new, |len| vec![len]);
    let [read, written] = one.lens;
    match one.call.operation.name() {
        "gather" | "scatter" => (listed(read), listed(written)),
        _ => (listed(read.or(written)), listed(written.or(read))),
    }
}

/// PyTorch's name for a type's scalars.
fn dtype(dtype: DType) -> String {
    let name = dtype.to_string();
    let torch = match name.as_str() {
        "i8" => "Char",
        "u8" => "Byte",
        "i32" => "Int",
        "u32" => "UInt32",
        "i64" => "Long",
        "u64" => "UInt64",
        "f16" => "Half",
        "f32" => "Float",
        "f64" => "Double",
        "bf16" => "BFloat16",
        "i16" => "Short",
        "u16" => "UInt16",
        "bool" => "Bool",
        "complex<f32>" => "ComplexFloat",
        "complex<f64>" => "ComplexDouble",
        "f8e4m3" => "Float8_e4m3fn",
        "f8e5m2" => "Float8_e5m2",
        _ => return name,
    };
    torch.to_owned()
}
