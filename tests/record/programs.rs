//! What the ranks of the tests do.

use std::process::exit;
use std::thread;
use std::time::Duration;

use typed_nccl::{
    Buffer, CommConfig, Communicator, Device, Error, Result, SliceMut, Stream, Sum, kernel, launch,
    plan, tag,
};

plan! { pub scaled_sum(n: Ranks, len: usize) {
    inout x: [f32; len];
    run double(write x);
    all_reduce(x, sum);
} }

plan! { both(n: Ranks, len: usize) {
    inout x, y: [f32; len];
    stream net, other;
    all_reduce(x, sum) on net;
    run halve(write y) on other;
} }

kernel! {
    fn attend(x: &mut [f32]);
    // SAFETY: it does nothing.
    unsafe ptx r#"
        .visible .entry attend(.param .u64 x, .param .u64 x_len)
        {
            ret;
        }
    "#;
    host { let _ = x; }
}

struct Twice;

tag!(Parity);

impl<D: Device> scaled_sum::Steps<D> for Twice {
    fn double(&mut self, mut x: SliceMut<'_, f32, D>, stream: &Stream<D>) -> Result<()> {
        stream.launch(&mut x, |_, _| {}) // is on the timeline as this step, not as a launch
    }
}

impl<D: Device> both::Steps<D> for Twice {
    fn halve(&mut self, mut y: SliceMut<'_, f32, D>, stream: &Stream<D>) -> Result<()> {
        stream.launch(&mut y, |_, _| {})
    }
}

pub(crate) fn main(name: &str) {
    let ended = match name {
        "right" => launch!(right),
        "mismatch" => launch!(mismatch),
        "dies" => launch!(dies),
        "outlived" => launch!(outlived),
        "late" => launch!(late),
        "deadlock" => launch!(deadlock),
        "hazard" => launch!(hazard),
        "kept" => launch!(kept, CommConfig::builder().flight_record(4).build()),
        "not_kept" => launch!(not_kept),
        "transfers" => launch!(transfers),
        _ => panic!("no program {name}"),
    };
    if let Err(error) = ended {
        eprintln!("{error}");
        exit(1);
    }
}

/// A collective, a plan with a step of its own, work on a stream that no communicator knows, and a
/// child with a collective.
fn right<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let mut x = comm.device().from_slice(&[1.0_f32; 8])?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    let mut bound = scaled_sum::bind(&mut comm, scaled_sum::Params { len: 8 })?;
    bound.run(&comm, scaled_sum::Buffers { x: &mut x }, &mut Twice)?;
    comm.sync(comm.stream())?;
    let size = comm.size();
    assert_eq!(x.to_vec()?, vec![(size * size) as f32; 8]);
    drop(bound);
    let compute = comm.device().stream()?.named("compute");
    let mut y = comm.device().zeros::<f32>(8)?;
    compute.run(attend(&mut y))?;
    compute.launch(&mut y, |_, _| {})?;
    compute.copy(&x, &mut y)?;
    compute.sync()?;
    for _ in 0..2 {
        let nameless = comm.device().stream()?;
        nameless.fill(&mut y, 1.0)?;
        nameless.sync()?;
    }
    let mut bound = both::bind(&mut comm, both::Params { len: 8 })?;
    bound.run(&comm, both::Buffers { x: &mut x, y: &mut y }, &mut Twice)?;
    comm.sync(comm.stream())?;
    y.to_vec()?; // of the other stream
    drop(bound);
    let child = comm.split::<Parity>(comm.rank() % 2, 0)?;
    child.all_reduce_in_place(&mut x, Sum)?;
    child.sync(child.stream())?;
    child.finish()?;
    comm.finish()
}

/// Everyone sends to the next rank, in a group.
fn transfers<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let x = comm.device().from_slice(&[1_i32; 4])?;
    let mut y = comm.device().zeros::<i32>(4)?;
    let (next, last) = (comm.ring(1), comm.ring(-1));
    for _ in 0..2 {
        comm.group(|group| {
            group.send(&x, next)?;
            group.recv(&mut y, last)
        })?;
    }
    comm.sync(comm.stream())?;
    let file = std::env::var("TYPED_NCCL_FLIGHT_RECORD").expect("a file");
    let file = file.replace("{rank}", &comm.rank().to_string());
    comm.flight_record()?.write(file).expect("it is written");
    comm.finish()
}

/// The second call of rank 1 has another length.
fn mismatch<D: Device>(comm: Communicator<D>) -> Result<()> {
    let mut x = comm.device().zeros::<f32>(8)?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    comm.sync(comm.stream())?;
    let mut y = comm.device().zeros::<f32>(if comm.rank().index() == 1 { 16 } else { 8 })?;
    comm.all_reduce_in_place(&mut y, Sum)?;
    let error = comm.sync(comm.stream()).expect_err("they differ");
    assert!(matches!(error, Error::Mismatch(_)), "{error}");
    Err(error)
}

/// A call, after which rank 1 kills its process.
fn until_a_death<D: Device>(comm: &Communicator<D>) -> Result<Buffer<f32, D>> {
    let mut x = comm.device().zeros::<f32>(8)?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    comm.sync(comm.stream())?;
    // The others have completed it too.
    comm.barrier()?;
    if comm.rank().index() == 1 {
        // SAFETY: the call takes two numbers.
        let _ = unsafe { libc::raise(libc::SIGKILL) };
    }
    Ok(x)
}

/// Rank 1 kills its process before the second call.
fn dies<D: Device>(comm: Communicator<D>) -> Result<()> {
    let mut x = until_a_death(&comm)?;
    comm.all_reduce_in_place(&mut x, Sum)?;
    let error = comm.sync(comm.stream()).expect_err("a rank is dead");
    assert!(matches!(error, Error::PeerFailed(_)), "{error}");
    Err(error)
}

/// As above. The others' calls in a child differ once the parent is gone.
fn outlived<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let child = comm.split::<Parity>(comm.rank() % 2, 0)?;
    until_a_death(&comm)?;
    while comm.health().is_ok() {
        thread::sleep(Duration::from_millis(1));
    }
    drop(comm);
    let mut y = child.device().zeros::<f32>(8 + child.rank().index())?;
    child.all_reduce_in_place(&mut y, Sum)?;
    let error = child.sync(child.stream()).expect_err("they differ");
    assert!(matches!(error, Error::Mismatch(_)), "{error}");
    Err(error)
}

/// Both ranks send first.
fn deadlock<D: Device>(comm: Communicator<D>) -> Result<()> {
    let x = comm.device().zeros::<f32>(4)?;
    let mut y = comm.device().zeros::<f32>(4)?;
    let peer = comm.ring(1);
    comm.send(&x, peer)?;
    comm.recv(&mut y, peer)?;
    let error = comm.sync(comm.stream()).expect_err("they wait for each other");
    assert!(matches!(error, Error::Deadlock(_)), "{error}");
    Err(error)
}

/// Rank 1 reads what rank 0 puts, after a barrier, which orders nothing on streams. The put is over
/// by then, and that is looked at for the record: the program has not waited for it.
fn hazard<D: Device>(mut comm: Communicator<D>) -> Result<()> {
    let window = comm.window::<u32>(8)?;
    let source = comm.window::<u32>(8)?;
    let mut seen = comm.device().zeros::<u32>(8)?;
    if comm.rank().index() == 0 {
        comm.put_signal(source.slice(0..8), 1, window.at(0))?;
    }
    comm.barrier()?;
    thread::sleep(Duration::from_millis(100));
    let error = match comm.rank().index() {
        1 => {
            comm.stream().launch((&window, &mut seen), |_, _| {})?;
            let error = comm.sync(comm.stream());
            comm.barrier()?;
            error
        }
        _ => {
            comm.barrier()?;
            comm.sync(comm.stream())
        }
    };
    let error = error.expect_err("nothing orders them");
    assert!(matches!(error, Error::Hazard(_)), "{error}");
    Err(error)
}

/// Rank 1 is late until the file is there that the other asks for by a signal.
fn late<D: Device>(comm: Communicator<D>) -> Result<()> {
    let mut x = comm.device().zeros::<f32>(8)?;
    if comm.rank().index() == 1 {
        let file = std::env::var("UNTIL").expect("a file");
        println!("late");
        while !std::path::Path::new(&file).exists() {
            thread::sleep(Duration::from_millis(5));
        }
        thread::sleep(Duration::from_millis(100));
    }
    comm.all_reduce_in_place(&mut x, Sum)?;
    comm.sync(comm.stream())?;
    comm.finish()
}

/// More operations than are kept; the record's JSON is printed by rank 0.
fn kept<D: Device>(comm: Communicator<D>) -> Result<()> {
    let mut x = comm.device().zeros::<f32>(8)?;
    for _ in 0..10 {
        comm.all_reduce_in_place(&mut x, Sum)?;
    }
    comm.sync(comm.stream())?;
    if comm.rank().index() == 0 {
        println!("{}", comm.flight_record()?.to_json());
    }
    comm.finish()
}

fn not_kept<D: Device>(comm: Communicator<D>) -> Result<()> {
    let error = comm.flight_record().expect_err("nothing is kept");
    assert!(matches!(error, Error::Unsupported(_)), "{error}");
    assert!(error.to_string().contains("TYPED_NCCL_FLIGHT_RECORD"), "{error}");
    comm.finish()
}
