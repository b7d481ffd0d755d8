//! Configurations in NCCL's layout.

use std::collections::HashMap;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr;
use std::sync::LazyLock;

use nccl_sys::{Layout, ncclCollConfig_t, ncclConfig_t};
use typed_nccl_plan::releases::{SEVERAL_SIGNALS, ZERO_CTAS};

use super::api::{Nccl, lacking};
use super::comm::Comm;
use super::values::number;
use crate::Result;
use crate::communicator::{CallConfig, CommConfig, EARLY_SIGNALS, Setting, Value};
use crate::error::Unsupported;
use crate::lock::Mutex;

/// Fails if the loaded NCCL lacks a setting. NCCL itself silently ignores settings that it does not
/// know.
pub(super) fn offers(nccl: &Nccl, config: &CommConfig) -> Result<()> {
    let slots = config.slots();
    if slots.context > 1 || slots.index > 1 {
        nccl.needs("more than one context or signal", SEVERAL_SIGNALS)?;
    }
    if slots.context == 0 {
        has::<ncclConfig_t>(nccl, "numRmaCtx", "a communicator without one-sided operations")?;
    }
    if config.ctas.is_zero() {
        nccl.needs("`CtaPolicy::Zero`", ZERO_CTAS)?;
    }
    if config.early_signals {
        nccl.api.ncclSignal().map_err(lacking("signals before the first window"))?;
    }
    let settings = config.settings();
    // Releases without this field set signals up while connecting.
    let mut fields = settings.iter().filter(|setting| setting.field != EARLY_SIGNALS);
    fields.try_for_each(|setting| has::<ncclConfig_t>(nccl, setting.field, &setting.name()))
}

/// Fails if the loaded release lacks a field.
pub(super) fn has<T: Layout>(nccl: &Nccl, field: &str, what: &str) -> Result<()> {
    match T::field(field) {
        Some(known) => nccl.needs_version(what, known.since),
        None => Ok(()),
    }
}

/// The configuration of a communicator with this name.
pub(super) fn of(config: &CommConfig, name: &str) -> ncclConfig_t {
    let mut made = ncclConfig_t::new();
    made.commName = kept(name).as_ptr();
    let slots = config.slots();
    if slots.context != 1 || slots.index != 1 {
        made.numRmaCtx = number(slots.context);
    }
    if slots.context > 1 || slots.index > 1 {
        made.numRmaSig = number(slots.index);
    }
    for setting in config.settings() {
        put(&mut made, &setting);
    }
    made
}

/// Fails if the loaded NCCL lacks a setting of a call's configuration.
pub(super) fn offers_call(comm: &Comm, config: &CallConfig) -> Result<()> {
    let nccl = comm.nccl;
    has::<ncclCollConfig_t>(nccl, "size", "a `CallConfig`")?;
    let Some(event) = &config.launched else { return Ok(()) };
    let what = "`CallConfig::launched` (NCCL's launchCompletionEvent)";
    has::<ncclCollConfig_t>(nccl, "launchCompletionEvent", what)?;
    if event.ordinal() == comm.gpu.ordinal() {
        return Ok(());
    }
    Err(Unsupported::error(
        "a launch event",
        format!("to be of cuda:{}, where the communicator is", comm.gpu.ordinal()),
        format!("it is of cuda:{}", event.ordinal()),
    ))
}

pub(super) fn of_call(config: &CallConfig) -> ncclCollConfig_t {
    let mut made = ncclCollConfig_t::new();
    for setting in config.settings() {
        put(&mut made, &setting);
    }
    made.userProfilerTag = config.profiler_tag;
    if let Some(event) = &config.launched {
        made.launchCompletionEvent = event.handle();
    }
    made
}

pub(super) fn put<T: Layout>(config: &mut T, setting: &Setting) {
    let Some(field) = T::field(setting.field) else { return };
    let place = ptr::from_mut(config).wrapping_byte_add(field.offset);
    match &setting.value {
        Value::Number(value) | Value::Named(value, _) if field.size == size_of::<c_int>() => {
            // SAFETY: the field is inside the struct, and its size says that it is an integer.
            unsafe { place.cast::<c_int>().write(*value) };
        }
        Value::Number(value) | Value::Named(value, _) if field.size == size_of::<bool>() => {
            // SAFETY: the field is inside the struct, and its size says that it is a `bool`.
            unsafe { place.cast::<bool>().write(*value != 0) };
        }
        Value::Text(text) if field.size == size_of::<*const c_char>() => {
            // SAFETY: the field is inside the struct and as large as a pointer; its name says that
            // it points to a text.
            unsafe { place.cast::<*const c_char>().write(kept(text).as_ptr()) };
        }
        // No setting has a field of another size; a test checks each.
        _ => {}
    }
}

/// Leaks a text as NCCL takes it, once per text: NCCL does not copy a communicator's name.
fn kept(text: &str) -> &'static CStr {
    static TEXTS: LazyLock<Mutex<HashMap<String, &'static CStr>>> = LazyLock::new(Mutex::default);
    let mut texts = TEXTS.lock();
    texts.entry(text.to_owned()).or_insert_with(|| {
        // Identifiers contain no zero, and other texts were checked.
        let text = CString::new(text).unwrap_or_default();
        Box::leak(text.into_boxed_c_str())
    })
}
