//! A plan, bound to a communicator.

use std::fmt;
use std::sync::Arc;

use typed_nccl_plan::check::Accepted;
use typed_nccl_plan::cost::{Estimate, Topology, estimate};
use typed_nccl_plan::ir::{Plan, Role};
use typed_nccl_plan::lower::{Decided, Schedule};
use typed_nccl_plan::verdict::Sizes;

use super::agree::{BindAnswer, Unbound, agree, hash, hash_of};
use super::argument::Back;
use super::asked::Asked;
use super::captured::Captured;
use super::children::{Children, children};
use super::counted::{Lists, Passed};
use super::declaration::Declaration;
use super::give::{Given, refusal};
use super::kernel_support::KernelSupport;
use super::kernels::Use;
use super::local::Local;
use super::pace::Pace;
use super::parted::{self, Parted};
use super::prepare::{Object, Prepared, Preparing, Step, objects, rank_in};
use super::same::{Names, Same};
use super::table::Table;
use super::timing::Timing;
use super::values::{Values, dtypes};
use super::warm_up::{self, warm_up};
use super::window_record::WindowRecord;
use crate::backend::{Piece, Reads, WindowId};
use crate::communicator::{CanEnqueue, State};
use crate::error::{BindFault, Error, Site};
use crate::stream::{Awaited, StreamShared};
use crate::{AnyDevice, Communicator, DType, Device, Host, Result, Stream, Work, World};

/// A plan that all ranks of a communicator have agreed on, ready to run.
///
/// It owns the communicators of subsets of the ranks, the plan's local memory, and the plan's
/// streams but for the first, which is the communicator's own. It borrows nothing, and works only
/// with the communicator that it was bound to. See the example of [`bind`].
pub struct Bound<W: World> {
    pub(super) fixed: Fixed<W>,
    pub(super) moving: Moving<W>,
    pub(super) table: Table<W>,
}

/// The constant part.
pub(super) struct Fixed<W: World> {
    pub(super) plan: Arc<Plan>,
    pub(super) children: Children<W>,
    schedule: Schedule,
    sizes: Sizes,
    /// The sizes at which it was checked, and when.
    checked: String,
    /// The communicator's number, name and size.
    pub(super) of: (u64, &'static str, usize),
    pub(super) steps: Vec<Step>,
    pub(super) objects: Vec<Object>,
    /// The caller's buffers, in the order of the plan and of their objects.
    pub(super) given: Vec<Given>,
    /// Memory of the objects after those, in runs of even number.
    pub(super) locals: Vec<Local<W>>,
    /// The most regions that a step writes.
    pub(super) most_written: usize,
    pub(super) parted: Parted,
    pub(super) lists: Lists,
    /// The caller's windows that other ranks read, by object.
    pub(super) shown: Vec<usize>,
    /// Compares the ranks' windows, if the caller passes any.
    pub(super) same: Option<Arc<Same>>,
}

/// The part that runs change.
pub(super) struct Moving<W: World> {
    /// The graphs of a captured plan, on devices that support them.
    pub(super) graphs: Vec<Captured<W>>,
    /// The plan's streams; `None` for the first, which is the communicator's own.
    pub(super) streams: Vec<Option<Stream<W::Device>>>,
    /// The last record of each event: its stream, and the operation that it follows.
    pub(super) events: Vec<Option<(Arc<StreamShared<Back<W>>>, u64)>>,
    /// Whether the second copies of local memory are current.
    pub(super) flipped: bool,
    /// Storage of the last launch's lists, for reuse.
    pub(super) pieces: Vec<Piece>,
    pub(super) uses: Vec<Use<'static, Back<W>>>,
    /// The number of runs, including refused ones.
    pub(super) runs: u64,
    /// Storage of the last run's list of windows, for reuse.
    pub(super) windows: Vec<WindowId>,
    /// Where to look first for the next buffer.
    pub(super) next: usize,
    /// Whether memory is passed in a different order than declared.
    pub(super) is_shuffled: bool,
    /// In that case, the first place of each buffer.
    pub(super) begins: Vec<Option<usize>>,
    /// Why every rank refuses the run being prepared.
    pub(super) refused: Option<Error>,
    /// The error in this rank's arguments.
    pub(super) error: Option<Error>,
    pub(super) taken: Vec<bool>,
    pub(super) timing: Timing,
    pub(super) parted: parted::Last,
    /// The lengths of messages that the run being prepared passes.
    pub(super) passed: Passed,
}

/// Binds a plan to a communicator. All ranks call it with the same plan and the same values; the
/// host waits for them. The first rank checks the plan exactly for these sizes, unless they were
/// checked at compile time, and tells the others. Each rank [lowers](typed_nccl_plan::lower::lower)
/// it. Then the ranks compare their operations, create the plan's communicators of subsets of the
/// ranks, and run once everything that NCCL sets up at first use.
///
/// ```
/// use typed_nccl::plan::{self, Values, build::{PlanBuilder, ring}};
/// use typed_nccl::{Communicator, Host, Result, World, spmd};
///
/// fn shift<W: World>(mut comm: Communicator<W>) -> Result<()> {
///     let mut declared = PlanBuilder::new("shift");
///     declared.ranks(1..);
///     let len = declared.param("len", 1..);
///     let (a, b) = (declared.input::<f32>("a", len), declared.output::<f32>("b", len));
///     let net = declared.stream("net");
///     declared.on(net).transfer(a, ring(1), b);
///     let checked = declared.check().expect("a plan that is right");
///
///     let mut shift = plan::bind(&mut comm, checked.plan(), &Values::new().number("len", 2))?;
///     let a = typed_nccl::Device::from_slice(comm.device(), &[comm.rank().index() as f32; 2])?;
///     let mut b = typed_nccl::Device::zeros::<f32>(comm.device(), 2)?;
///     shift.on(&comm).read("a", &a).write("b", &mut b).run(&mut ())?;
///     assert_eq!(b.to_vec()?, [comm.ring(-1).index() as f32; 2]);
///     comm.finish()
/// }
///
/// # fn main() -> Result<()> {
/// spmd::<Host>(3, |place| shift(place.init()?))
/// # }
/// ```
///
/// # Errors
/// [`Error::BadPlan`](crate::Error::BadPlan) on every rank, with one story: a plan that is wrong at
/// these sizes. The same on one rank: values that the plan does not claim, with what it claims;
/// what this library or the loaded NCCL cannot do. The other ranks then get
/// [`Error::PlansDiffer`](crate::Error::PlansDiffer), as all do whose plans or values differ. A
/// lost peer; a passed deadline, which counts for what a rank computes as it does for its waits.
#[track_caller]
pub fn bind<W: World, S: State + CanEnqueue>(
    comm: &mut Communicator<W, S>,
    plan: &Plan,
    values: &Values,
) -> Result<Bound<W>> {
    let (site, plan) = (Site::caller(), Arc::new(plan.clone()));
    let name = plan.name.clone();
    Bound::bind(comm, &name, Ok((plan, Accepted::default())), &[], values, site)
}

impl<W: World> Bound<W> {
    /// [`bind`] for a plan of [`plan!`](crate::plan!).
    ///
    /// # Errors
    /// As there.
    #[doc(hidden)]
    #[track_caller]
    pub fn declared<S: State + CanEnqueue>(
        comm: &mut Communicator<W, S>,
        name: &str,
        declaration: &'static Declaration,
        values: &Values,
    ) -> Result<Self> {
        let site = Site::caller();
        let plan = declaration.read().cloned();
        Self::bind(comm, name, plan, declaration.sites(), values, site)
    }

    fn bind<S: State + CanEnqueue>(
        comm: &mut Communicator<W, S>,
        name: &str,
        plan: Result<(Arc<Plan>, Accepted), BindFault>,
        sites: &[Site],
        values: &Values,
        site: Site,
    ) -> Result<Self> {
        let pace = Pace::start(comm.here().core, site);
        let until = pace.until();
        let asked = plan.and_then(|(plan, accepted)| {
            let sizes = sizes(&plan, comm.size(), values)?;
            Ok(Asked::new(plan, accepted, sizes, comm.here().core.slots.index))
        });
        let own = asked.as_ref().map_err(|why| why.clone().into()).and_then(|asked| {
            let mut instance = asked.instance(until).map_err(BindFault::from)?;
            let (hash, sizes) = (hash_of(&instance), asked.sizes.text.clone());
            // One rank checks for all.
            let is_first = comm.rank().index() == 0;
            let found = is_first.then(|| asked.decide(&mut instance, until));
            Ok(((asked, instance), BindAnswer { sizes, hash, found }))
        });
        pace.keep(comm.here().core)?;
        let ((asked, instance), decided) = agree(comm, name, own, site)?;
        let pace = Pace::start(comm.here().core, site);
        let instance = instance.with_time(pace.until());
        let warning = decided.as_ref().and_then(Decided::warning);
        let warning = warning.map(|warning| format!(" {warning}")).unwrap_or_default();
        // It fails only where there was no time.
        let lowered = decided.and_then(|decided| instance.lower(&decided).ok());
        pace.keep(comm.here().core)?;
        let kernel_support = KernelSupport::new(comm, asked.plan(), lowered.as_ref(), site);
        let pace = Pace::start(comm.here().core, site);
        let own = kernel_support.map_err(Unbound::Error);
        let own = own.and_then(|kernel_support| {
            Draft::new(comm, (asked, lowered, kernel_support), sites, values, &pace)
        });
        let own = own.map(|mut draft| {
            draft.fixed.checked += &warning;
            let (sizes, hash) = (draft.fixed.sizes.text.clone(), draft.hash);
            (draft, BindAnswer { sizes, hash, found: None })
        });
        pace.keep(comm.here().core)?;
        let (draft, _) = agree(comm, name, own, site)?;
        draft.bind(comm, site)
    }

    /// The plan as it runs: all puts and signals go through the communicator that it is bound to,
    /// even if declared on one of a subset of the ranks.
    pub fn plan(&self) -> &Plan {
        &self.fixed.plan
    }

    /// The sizes that it is bound to.
    pub fn sizes(&self) -> &Sizes {
        &self.fixed.sizes
    }

    /// The lowered operations of every rank: groups, streams, events, and the reasons for them.
    pub fn schedule(&self) -> &Schedule {
        &self.fixed.schedule
    }

    /// A handle of everything that its runs have enqueued until now, on all of its streams.
    ///
    /// # Errors
    /// As [`Communicator::submitted`]; a communicator other than the one that the plan was bound to
    /// ([`Error::BoundElsewhere`](crate::Error::BoundElsewhere)).
    #[track_caller]
    pub fn submitted<S: State + CanEnqueue>(
        &self,
        comm: &Communicator<W, S>,
    ) -> Result<Work<W::Device>> {
        let (core, site) = (comm.here().core, Site::caller());
        core.health.check()?;
        if core.health.id() != self.fixed.of.0 {
            return Err(refusal(&self.fixed, false, (W::NAME, comm.size()), site));
        }
        let streams = std::iter::once(comm.stream()).chain(self.moving.streams.iter().flatten());
        let points = streams.map(|stream| Awaited::now(&stream.core.shared()));
        Ok(Work::new(points.collect::<Result<_>>()?, core, site))
    }

    /// Sets when the operations of later runs start, as far as the plan leaves that open: for
    /// tests, on the host backend.
    pub fn set_timing(&mut self, timing: Timing) {
        self.moving.timing = match W::Device::KIND {
            Host::<AnyDevice>::KIND => timing,
            _ => Timing::Early,
        };
    }

    /// Describes it as text: a timeline of the ranks, why statements share a launch or do not, and
    /// the sizes at which it was checked.
    pub fn describe(&self) -> String {
        let Fixed { plan, schedule, checked, .. } = &self.fixed;
        format!("{}\n{}\n{checked}\n", schedule.to_text(plan), schedule.explain(plan))
    }

    /// The timeline as an SVG picture.
    pub fn to_svg(&self) -> String {
        self.fixed.schedule.to_svg(&self.fixed.plan)
    }

    /// The timeline as a Mermaid sequence diagram.
    pub fn to_mermaid(&self) -> String {
        self.fixed.schedule.to_mermaid(&self.fixed.plan)
    }

    /// Estimates the time of a run on a topology.
    pub fn estimate(&self, topology: &Topology) -> Estimate {
        estimate(&self.fixed.plan, &self.fixed.schedule, topology)
    }
}

/// A rank's state before the ranks have agreed.
struct Draft<W: World> {
    /// Without communicators and windows, which take all ranks.
    fixed: Fixed<W>,
    /// The plan's communicators, if they exist already.
    children: Option<Children<W>>,
    passed: Passed,
    warm_up_memory: warm_up::Memory<W::Device>,
    streams: Vec<Option<Stream<W::Device>>>,
    hash: u128,
}

impl<W: World> Draft<W> {
    fn new<S: State + CanEnqueue>(
        comm: &Communicator<W, S>,
        (asked, lowered, kernel_support): (&Asked, Option<Schedule>, KernelSupport<W>),
        sites: &[Site],
        values: &Values,
        pace: &Pace,
    ) -> Result<Self, Unbound> {
        let (plan, sizes) = (asked.plan().clone(), asked.sizes.clone());
        let &Asked { signals, one_signal, .. } = asked;
        let lowered = lowered
            .ok_or_else(|| BindFault::Unreadable { why: "no rank has checked it".to_owned() })?;
        let dtypes = dtypes(&plan, values)?;
        let lengths = plan.lengths(&sizes, comm.rank().index())?;
        let schedule = kernel_support.choose(&plan, &dtypes, lowered);
        let (objects, first) = objects(&plan, &lengths, &dtypes);
        let preparing = Preparing {
            plan: &plan,
            extents: &sizes.extents,
            objects: &objects,
            first: &first,
            rank: comm.rank().index(),
            one_signal,
            signals,
            sites,
            site: pace.site(),
            pace,
        };
        let (steps, groups) = preparing.steps(&schedule)?;
        let shown = preparing.shown(&schedule);
        reaches(comm, &plan, &objects, &steps)?;
        let lists = Lists::new(&plan, &sizes);
        let hash = hash(&schedule, &dtypes, pace);
        let given = given(&plan, &dtypes, &objects, &first);
        for step in &steps {
            if let Prepared::Assign(this) = &step.work {
                this.load(comm.stream()).map_err(Unbound::Error)?;
            }
        }
        let locals = Local::buffers(comm, &objects).map_err(Unbound::Error)?;
        let warm_up_memory = warm_up::Memory::new(comm, &schedule).map_err(Unbound::Error)?;
        // One stream is the communicator's own; of several, the first one.
        let named = |name: &str| {
            let name = format!("{}: {name}", plan.name);
            comm.device().stream().map(|stream| stream.named(&name))
        };
        let open = |(at, name)| (at > 0).then(|| named(name)).transpose();
        let names = plan.streams.iter().map(|stream| stream.name.as_str());
        let streams = names.enumerate().map(open).collect::<Result<_>>();
        let streams = streams.map_err(Unbound::Error)?;
        let passed = Passed::new(&lists, groups);
        let fixed = Fixed {
            children: Children::new(),
            checked: asked.checked() + &kernel_support.told,
            of: (comm.here().core.health.id(), W::NAME, comm.size()),
            most_written: steps.iter().map(|step| step.work.writes()).max().unwrap_or(0),
            parted: Parted::new(&plan, &objects, &schedule.ranks[comm.rank().index()]),
            same: None,
            plan,
            schedule,
            sizes,
            steps,
            objects,
            given,
            locals,
            lists,
            shown,
        };
        let children = kernel_support.children;
        Ok(Self { fixed, children, passed, warm_up_memory, streams, hash })
    }

    /// After the ranks have agreed: creates everything that takes all ranks.
    fn bind<S: State + CanEnqueue>(
        self,
        comm: &mut Communicator<W, S>,
        site: Site,
    ) -> Result<Bound<W>> {
        let Self { mut fixed, children, passed, warm_up_memory, streams, .. } = self;
        Local::register(comm, &fixed.objects, &mut fixed.locals)?;
        fixed.children = match children {
            Some(made) => made,
            None => self::children(comm, &fixed.plan, &fixed.sizes.extents)?,
        };
        warm_up(comm, &mut fixed.children, &fixed.schedule, warm_up_memory, |among, rank| {
            rank_in(&fixed.plan.communicators[among], &fixed.sizes.extents, rank)
        })?;
        // Windows were made last; put them in their places among the others.
        fixed.locals.sort_by_key(|local| local.object);
        if fixed.objects.iter().any(|object| object.is_window && !object.is_local) {
            fixed.same = Some(share_windows(comm, &fixed.plan, &fixed.objects, site)?);
        }
        let events = fixed.schedule.ranks[comm.rank().index()].events as usize;
        Ok(Bound {
            table: Table::default(),
            moving: Moving {
                graphs: Vec::new(),
                streams,
                events: vec![None; events],
                flipped: false,
                pieces: Vec::new(),
                uses: Vec::new(),
                runs: 0,
                windows: Vec::new(),
                next: 0,
                is_shuffled: false,
                begins: Vec::new(),
                refused: None,
                error: None,
                taken: Vec::new(),
                timing: Timing::default(),
                parted: parted::Last::default(),
                passed,
            },
            fixed,
        })
    }
}

/// The caller's buffers, each by its first object.
fn given(plan: &Plan, dtypes: &[DType], objects: &[Object], first: &[usize]) -> Vec<Given> {
    let buffers = plan.buffers.iter().enumerate();
    let given = buffers.filter(|(_, buffer)| buffer.role != Role::Local);
    given
        .map(|(at, buffer)| {
            let own = objects[first[at]..].iter().take_while(|object| object.buffer == at);
            Given::new((buffer, dtypes[at]), first[at], own)
        })
        .collect()
}

/// Fails if the plan reads the window of a rank whose memory this one does not reach.
fn reaches<W: World, S: State + CanEnqueue>(
    comm: &Communicator<W, S>,
    plan: &Plan,
    objects: &[Object],
    steps: &[Step],
) -> Result<(), Unbound> {
    let reads = steps.iter().filter_map(|step| match &step.work {
        Prepared::Assign(this) => Some(this.peers()),
        _ => None,
    });
    let (world, core) = (comm.world_team(), comm.here().core);
    for (object, peer) in reads.flatten() {
        let comm = core.comm().map_err(Unbound::Error)?;
        if !Back::<W>::reaches(comm, peer, world) {
            let window = plan.buffers[objects[object].buffer].name.clone();
            return Err(BindFault::OutOfReach { window, peer }.into());
        }
    }
    Ok(())
}

/// Sets up the comparison of the ranks' windows.
fn share_windows<W: World, S: State + CanEnqueue>(
    comm: &Communicator<W, S>,
    plan: &Plan,
    objects: &[Object],
    site: Site,
) -> Result<Arc<Same>> {
    let (core, size) = (comm.here().core, comm.size());
    let names = || {
        let windows = objects.iter().filter(|object| object.is_window && !object.is_local);
        let windows = windows.map(|object| plan.buffers[object.buffer].name.clone());
        Names { plan: plan.name.clone(), windows: windows.collect() }
    };
    let same = core.share("bind", site, |wire| {
        let told = wire.map(|wire| WindowRecord::new(wire, core.health.clone()));
        Same::new(names(), size, told)
    })?;
    same.listen();
    Ok(same)
}

/// The instance for these values and the communicator's size.
fn sizes(plan: &Plan, ranks: usize, values: &Values) -> Result<Sizes, BindFault> {
    let axes: Vec<&String> = plan.axes.iter().map(|axis| &axis.name).collect();
    let params: Vec<&String> = plan.params.iter().map(|param| &param.name).collect();
    for (what, known, given) in [
        ("axis", &axes, values.axes.iter().map(|(name, _)| name).collect::<Vec<_>>()),
        ("parameter", &params, values.params.iter().map(|(name, _)| name).collect()),
    ] {
        if let Some(name) = given.into_iter().find(|name| !known.contains(name)) {
            let known = known.iter().copied().cloned().collect();
            return Err(BindFault::Unknown { what, name: name.clone(), known });
        }
    }
    for param in &plan.params {
        if !values.params.iter().any(|(name, _)| *name == param.name) {
            let (name, is_list) = (param.name.clone(), param.count.is_some());
            return Err(BindFault::NoValue { name, is_list });
        }
    }
    let mut extents = Vec::new();
    for axis in &plan.axes {
        match values.axes.iter().find(|(name, _)| *name == axis.name) {
            Some((_, extent)) => extents.push(*extent),
            None if plan.axes.len() == 1 => extents.push(i64::try_from(ranks).unwrap_or(i64::MAX)),
            None => return Err(BindFault::NoExtent { axis: axis.name.clone() }),
        }
    }
    let product = extents.iter().try_fold(1_i64, |size, extent| size.checked_mul(*extent));
    let params: Vec<Vec<i64>> = plan
        .params
        .iter()
        .map(|param| {
            let given = values.params.iter().find(|(name, _)| *name == param.name);
            given.map_or_else(Vec::new, |(_, values)| values.clone())
        })
        .collect();
    let sizes = plan.sizes(&extents, &params)?;
    if product != i64::try_from(ranks).ok() {
        let axes = plan.axes.iter().map(|axis| axis.name.clone());
        return Err(BindFault::OtherRanks { extents: axes.zip(extents).collect(), found: ranks });
    }
    Ok(sizes)
}

impl<W: World> fmt::Debug for Bound<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Fixed { plan, sizes, .. } = &self.fixed;
        write!(f, "plan `{}`, bound to {} for {}", plan.name, W::NAME, sizes.text)
    }
}

#[cfg(test)]
mod tests {
    use static_assertions::{assert_impl_all, assert_not_impl_any};

    use super::Bound;
    use crate::Host;

    // It moves with its communicator from thread to thread, and serves one at a time.
    assert_impl_all!(Bound<Host>: Send);
    assert_not_impl_any!(Bound<Host>: Sync);
}
