//! What a plan's fusion is worth, on GPUs: `cargo bench -p benches --bench gpu_plan`.
//!
//! 64 independent all_reduces of 1 KiB: written as 64 statements of a plan, which makes one kernel
//! of this library's own of them, where the GPUs reach each other's memory; as a loop over an
//! array; without such kernels, which is one group; called one at a time; recorded into one group
//! by hand; as C does it, by the functions of the same library, with a communicator of its own on
//! the same GPUs and streams; and as graphs: the plan captured, and graphs of the calls one at a
//! time and of one group. All in turn, in one run; the best of several rounds, microseconds for all
//! 64 and the host's share of it. Then small plans beside the calls by hand, and single all_reduces
//! of 1 KiB to 4 MiB with kernels and without. `-- --ranks 2` on one GPU takes
//! `NCCL_MULTI_RANK_GPU_ENABLE=1`.

mod single;
mod small;

use std::ffi::{c_char, c_int, c_void};
use std::sync::mpsc::channel;
use std::time::Instant;

use nccl_sys::{
    Api, NCCL_COMM_NULL, cudaStream_t, ncclComm_t, ncclDataType_t, ncclRedOp_t, ncclResult_t,
    ncclUniqueId,
};
use typed_nccl::plan::build::PlanBuilder;
use typed_nccl::plan::{self, Bound, Values};
use typed_nccl::{Buffer, Communicator, Cuda, Device, Result, Scoped, Stream, Sum, World, library};

const COUNT: usize = 256;
const BUFFERS: usize = 64;
const ROUNDS: usize = 15;
const WAYS: [&str; 11] = [
    "plan, kernels off",
    "one at a time",
    "one group by hand",
    "one group from C",
    "captured, kernels off",
    "graph, one at a time",
    "graph of one group",
    "64 statements",
    "64 captured statements",
    "plan of an array",
    "captured, of an array",
];

fn main() -> Result<()> {
    let gpus = match Cuda::count() {
        Ok(0) => return skip("no GPU"),
        Ok(gpus) => gpus,
        Err(error) => return skip(&error.to_string()),
    };
    let runs = if std::env::args().any(|argument| argument == "--bench") { 200 } else { 5 };
    let asked = std::env::args().skip_while(|argument| argument != "--ranks").nth(1);
    let counts = match asked.and_then(|asked| asked.parse().ok()) {
        Some(asked) => vec![asked],
        None => [1, 2, 4, 8].into_iter().filter(|&n| n <= gpus).collect(),
    };
    for n in counts {
        let ranks = Cuda::spmd(n, |place| -> Result<_> {
            let mut comm = place.init()?;
            let small = small::measure(&mut comm, runs)?;
            let single = single::measure(&mut comm, runs)?;
            Ok((measure(comm, runs)?, (small, single)))
        })?;
        let (ranks, others): (Vec<_>, Vec<_>) = ranks.into_iter().unzip();
        let (small, single): (Vec<_>, Vec<_>) = others.into_iter().unzip();
        let slowest = |way: usize| ranks.iter().map(|rank| rank[way].0).fold(0.0, f64::max);
        let host = |way: usize| ranks.iter().map(|rank| rank[way].1).fold(0.0, f64::max);
        println!(
            "{n} ranks on {gpus} GPUs, NCCL {}, {BUFFERS} all_reduces of {} B",
            library::version()?,
            4 * COUNT
        );
        for (way, name) in WAYS.iter().enumerate() {
            println!("  {name:<20} {:9.2} us   host {:9.2} us", slowest(way), host(way));
        }
        println!("  one at a time / plan       {:8.2}", slowest(1) / slowest(0));
        println!("  plan / group by hand       {:8.3}", slowest(0) / slowest(2));
        println!("  the same, the host's share {:8.3}", host(0) / host(2));
        println!("  plan / group from C        {:8.3}", slowest(0) / slowest(3));
        println!("  captured plan / plan       {:8.3}", slowest(4) / slowest(0));
        println!("  one at a time / captured   {:8.2}", slowest(1) / slowest(4));
        println!("  captured / graph of group  {:8.3}", slowest(4) / slowest(6));
        println!("  kernels off / 64 statements{:8.2}", slowest(0) / slowest(7));
        println!("  the same, captured         {:8.2}", slowest(4) / slowest(8));
        single::print(&single);
        for (shape, name) in small::SHAPES.iter().enumerate() {
            let most = |way: usize, pick: fn((f64, f64)) -> f64| {
                small.iter().map(|rank| pick(rank[shape][way])).fold(0.0, f64::max)
            };
            let (all, host) =
                ([0, 1].map(|way| most(way, |t| t.0)), [0, 1].map(|way| most(way, |t| t.1)));
            println!(
                "  {name:<26} plan {:8.2} us   by hand {:8.2} us   ratio {:.3}   host's share {:.3}",
                all[0],
                all[1],
                all[0] / all[1],
                host[0] / host[1]
            );
        }
    }
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "ends `main`")]
fn skip(why: &str) -> Result<()> {
    println!("SKIPPED: {why}");
    Ok(())
}

/// Of each way, microseconds until the GPU is done and until the host is.
fn measure<W: World<Device: OnGpu>>(
    mut comm: Communicator<W>,
    runs: u32,
) -> Result<[(f64, f64); WAYS.len()]> {
    let (mut plan, mut captured) = (many(&mut comm, false, false)?, many(&mut comm, true, false)?);
    let (mut kernels, mut captured_kernels) =
        (many(&mut comm, false, true)?, many(&mut comm, true, true)?);
    let (mut written, mut captured_written) =
        (written(&mut comm, false)?, written(&mut comm, true)?);
    let names = names();
    let zeros = |comm: &Communicator<W>| -> Result<Vec<_>> {
        (0..BUFFERS).map(|_| comm.device().zeros::<f32>(COUNT)).collect()
    };
    // What a graph names is booked under a lock: the other ways have memory of their own. So have
    // captured plans, whose memory never was a graph's.
    let (mut buffers, mut leased, mut planned) = (zeros(&comm)?, zeros(&comm)?, zeros(&comm)?);
    let direct = Direct::connect(&comm, &mut buffers)?;
    let mut one_at_a_time =
        comm.capture(|g| leased.iter_mut().try_for_each(|one| g.all_reduce_in_place(one, Sum)))?;
    let mut one_group = comm.capture(|g| {
        g.group(|g| leased.iter_mut().try_for_each(|one| g.all_reduce_in_place(one, Sum)))
    })?;
    let mut best = [(f64::INFINITY, f64::INFINITY); WAYS.len()];
    for _ in 0..ROUNDS {
        for (way, best) in best.iter_mut().enumerate() {
            let (all, host) = time(&mut comm, runs, |comm| match way {
                0 => plan.on(comm).write("g", &mut buffers).run(&mut ()),
                1 => buffers.iter_mut().try_for_each(|one| comm.all_reduce_in_place(one, Sum)),
                2 => group(comm, &mut buffers),
                3 => {
                    direct.group();
                    Ok(())
                }
                4 => captured.on(comm).write("g", &mut planned).run(&mut ()),
                5 => one_at_a_time.launch(comm),
                6 => one_group.launch(comm),
                7 | 8 => {
                    let (plan, all) = match way {
                        7 => (&mut written, &mut buffers),
                        _ => (&mut captured_written, &mut planned),
                    };
                    let all = names.iter().zip(all);
                    all.fold(plan.on(comm), |run, (name, x)| run.write(name, x)).run(&mut ())
                }
                9 => kernels.on(comm).write("g", &mut buffers).run(&mut ()),
                _ => captured_kernels.on(comm).write("g", &mut planned).run(&mut ()),
            })?;
            *best = (best.0.min(all), best.1.min(host));
        }
    }
    comm.finish()?;
    Ok(best)
}

/// The plan of all of them.
fn many<W: World>(comm: &mut Communicator<W>, captured: bool, kernels: bool) -> Result<Bound<W>> {
    let mut declared = PlanBuilder::new("many");
    declared.ranks(1..);
    if captured {
        declared.captured();
    }
    if !kernels {
        declared.without_kernels();
    }
    let g = declared.array(BUFFERS as i64).in_out::<f32>("g", |_| COUNT);
    let net = declared.stream("net");
    declared.for_each("i", ..BUFFERS as i64, |plan, i| {
        plan.on(net).all_reduce_in_place(g.at(i), Sum);
    });
    let checked = declared.check().unwrap_or_else(|refused| panic!("{refused}"));
    plan::bind(comm, checked.plan(), &Values::new())
}

fn names() -> Vec<String> {
    (0..BUFFERS).map(|i| format!("x{i}")).collect()
}

/// The same as so many statements.
fn written<W: World>(comm: &mut Communicator<W>, captured: bool) -> Result<Bound<W>> {
    let mut declared = PlanBuilder::new("written");
    declared.ranks(1..);
    if captured {
        declared.captured();
    }
    let net = declared.stream("net");
    for name in names() {
        let x = declared.in_out::<f32>(&name, COUNT as i64);
        declared.on(net).all_reduce_in_place(x, Sum);
    }
    let checked = declared.check().unwrap_or_else(|refused| panic!("{refused}"));
    plan::bind(comm, checked.plan(), &Values::new())
}

/// What C does.
struct Direct {
    start: nccl_sys::ncclGroupStart,
    end: nccl_sys::ncclGroupEnd,
    all_reduce: nccl_sys::ncclAllReduce,
    buffers: Vec<*mut c_void>,
    comm: ncclComm_t,
    stream: cudaStream_t,
}

impl Direct {
    /// A communicator of the same ranks, made by NCCL's own functions.
    fn connect<W: World<Device: OnGpu>>(
        comm: &Communicator<W>,
        buffers: &mut [Buffer<f32, W::Device>],
    ) -> Result<Self> {
        let mut pointers = Vec::new();
        let mut stream: cudaStream_t = std::ptr::null_mut();
        for buffer in buffers {
            let (pointer, its_stream) = W::Device::raw(comm.stream(), buffer)?;
            pointers.push(pointer as *mut c_void);
            stream = its_stream as cudaStream_t;
        }
        // SAFETY: what this machine calls NCCL is NCCL.
        let api = unsafe { Api::load() }.expect("NCCL is loaded already");
        let (make, init) = (api.ncclGetUniqueId(), api.ncclCommInitRank());
        let (make, init) = (make.expect("NCCL has it"), init.expect("NCCL has it"));
        let (mut id, mut handle) = (ncclUniqueId::zeroed(), NCCL_COMM_NULL);
        if comm.rank().index() == 0 {
            // SAFETY: `id` is a place for an id.
            let made = unsafe { make(&raw mut id) };
            assert_eq!(made, ncclResult_t::ncclSuccess);
        }
        let bytes: Vec<i8> = comm.broadcast_value(&id.internal.to_vec(), 0)?;
        for (to, from) in id.internal.iter_mut().zip(bytes) {
            *to = from as c_char;
        }
        let (size, rank) = (comm.size() as c_int, comm.rank().index() as c_int);
        // SAFETY: `handle` is a place for a handle; all ranks have the same id; the GPU is current
        // on this thread, since the communicator was made here.
        let joined = unsafe { init(&raw mut handle, size, id, rank) };
        assert_eq!(joined, ncclResult_t::ncclSuccess);
        Ok(Self {
            start: api.ncclGroupStart().expect("NCCL has it"),
            end: api.ncclGroupEnd().expect("NCCL has it"),
            all_reduce: api.ncclAllReduce().expect("NCCL has it"),
            buffers: pointers,
            comm: handle,
            stream,
        })
    }

    fn group(&self) {
        let (dtype, op) = (ncclDataType_t::ncclFloat32, ncclRedOp_t::ncclSum);
        // SAFETY: it takes nothing; the end is below.
        let mut well = unsafe { (self.start)() } == ncclResult_t::ncclSuccess;
        for &at in &self.buffers {
            // SAFETY: each buffer has `COUNT` elements and lives as long as the bench; communicator
            // and stream are alive.
            let result =
                unsafe { (self.all_reduce)(at, at, COUNT, dtype, op, self.comm, self.stream) };
            well &= result == ncclResult_t::ncclSuccess;
        }
        // SAFETY: the group was started on this thread.
        well &= unsafe { (self.end)() } == ncclResult_t::ncclSuccess;
        assert!(well, "NCCL refused the group");
    }
}

/// Devices that have addresses.
trait OnGpu: Device {
    /// The addresses of a buffer and of a stream.
    fn raw(stream: &Stream<Self>, buffer: &mut Buffer<f32, Self>) -> Result<(usize, usize)>;
}

impl OnGpu for Cuda<Scoped<'_>> {
    fn raw(stream: &Stream<Self>, buffer: &mut Buffer<f32, Self>) -> Result<(usize, usize)> {
        let (sender, receiver) = channel();
        stream.launch(buffer, move |mut buffer, stream| {
            let _ = sender.send((buffer.as_mut_ptr() as usize, stream.as_ptr() as usize));
        })?;
        Ok(receiver.recv().unwrap_or_default())
    }
}

fn group<W: World>(comm: &mut Communicator<W>, all: &mut [Buffer<f32, W::Device>]) -> Result<()> {
    comm.group(|g| all.iter_mut().try_for_each(|one| g.all_reduce_in_place(one, Sum)))
}

fn time<W: World>(
    comm: &mut Communicator<W>,
    runs: u32,
    mut run: impl FnMut(&mut Communicator<W>) -> Result<()>,
) -> Result<(f64, f64)> {
    for _ in 0..3 {
        run(comm)?;
    }
    comm.sync(comm.stream())?;
    comm.barrier()?;
    let start = Instant::now();
    let mut host = 0.0;
    for _ in 0..runs {
        let begin = Instant::now();
        run(comm)?;
        host += begin.elapsed().as_secs_f64();
    }
    comm.sync(comm.stream())?;
    let micros = |seconds: f64| seconds * 1e6 / f64::from(runs);
    Ok((micros(start.elapsed().as_secs_f64()), micros(host)))
}
