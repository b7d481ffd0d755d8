//! Kernels: PTX with the few instructions that the tests' kernels use, run for one thread of the
//! grid after the other. Other texts are refused, with the instruction's name.

use std::collections::HashMap;
use std::ptr;

use crate::compute::computes;
use crate::ours;

/// A kernel.
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// How many bytes each parameter has.
    pub parameters: Vec<usize>,
    registers: usize,
    steps: Vec<Step>,
    /// The element type of one of typed-nccl's own kernels, which has no steps.
    ours: Option<u32>,
}

/// An instruction, and the register that must be set for it to run.
struct Step {
    when: Option<usize>,
    act: Act,
}

enum Act {
    /// Computes a value from three into a register.
    Compute(usize, fn(u64, u64, u64) -> u64, [Value; 3]),
    /// With this width and sign; a signed value is extended.
    Load(usize, Value, Width),
    Store(Value, Value, Width),
    Branch(usize),
    Return,
}

#[derive(Clone, Copy)]
enum Value {
    Register(usize),
    Number(u64),
    Parameter(usize),
    Thread,
    Threads,
    Block,
    Blocks,
}

/// The value that a load or a store moves.
#[derive(Clone, Copy)]
struct Width {
    bytes: usize,
    is_signed: bool,
}

/// One thread of a grid.
struct At {
    block: u32,
    blocks: u32,
    thread: u32,
    threads: u32,
}

/// The kernels of a text.
pub fn kernels(text: &str) -> Result<Vec<Kernel>, String> {
    if let Some(ours) = ours::kernels(text) {
        return Ok(ours);
    }
    let lines = text.lines().map(|line| line.split("//").next().unwrap_or_default());
    let text: Vec<&str> = lines.collect();
    text.join("\n").split(".entry").skip(1).map(Kernel::read).collect()
}

impl Kernel {
    /// One of typed-nccl's own.
    pub(crate) fn ours(name: String, parameters: Vec<usize>, element: u32) -> Self {
        Self { name, parameters, registers: 0, steps: Vec::new(), ours: Some(element) }
    }

    fn read(text: &str) -> Result<Self, String> {
        let parts = || {
            let (name, rest) = text.split_once('(')?;
            let (parameters, rest) = rest.split_once(')')?;
            let (_, rest) = rest.split_once('{')?;
            Some((name.trim(), parameters, rest.split_once('}')?.0))
        };
        let (name, parameters, body) = parts().ok_or("a kernel has parameters and a body")?;
        let (mut names, mut sizes) = (Vec::new(), Vec::new());
        for parameter in parameters.split(',') {
            let (size, name) = match words(parameter)[..] {
                [".param", size, name] => (size, name),
                // `dev[248]`: bytes passed as words, of which the first is its value here.
                [".param", ".align", _, ".b8", array] => {
                    let (name, bytes) = array.split_once('[').unwrap_or((array, "]"));
                    let bytes = bytes.trim_end_matches(']').parse::<usize>();
                    let bytes = bytes.map_err(|_| format!("`{array}` is no array"))?;
                    sizes.push(bytes);
                    names.push(name);
                    names.extend((1..bytes / 8).map(|_| ""));
                    continue;
                }
                _ => return Err(format!("`{}` is no parameter", parameter.trim())),
            };
            let bits = size.trim_start_matches(|c: char| !c.is_ascii_digit()).parse::<usize>();
            sizes.push(bits.map_err(|_| format!("`{size}` is no type"))? / 8);
            names.push(name);
        }
        let mut reader = Reader { names, registers: HashMap::new(), labels: HashMap::new() };
        let mut lines = Vec::new();
        for mut line in body.split(';').map(str::trim) {
            while let Some((label, rest)) = line.split_once(':') {
                reader.labels.insert(label.trim(), lines.len());
                line = rest.trim();
            }
            if !line.is_empty() && !line.starts_with(".reg") {
                lines.push(line);
            }
        }
        let steps = lines.iter().map(|line| reader.step(line)).collect::<Result<_, _>>()?;
        let registers = reader.registers.len();
        Ok(Self { name: name.to_owned(), parameters: sizes, registers, steps, ours: None })
    }

    /// Runs the kernel on a one-dimensional grid.
    ///
    /// # Safety
    ///
    /// The arguments are the kernel's. The memory that they refer to exists, and nothing else uses
    /// it.
    pub unsafe fn run(&self, (blocks, threads): (u32, u32), arguments: &[u64]) {
        if let Some(element) = self.ours {
            // SAFETY: the caller's promise.
            return unsafe { ours::run(&self.name, element, blocks, arguments) };
        }
        let mut registers = vec![0; self.registers];
        for block in 0..blocks {
            for thread in 0..threads {
                // SAFETY: the caller's promise.
                unsafe {
                    self.one(&At { block, blocks, thread, threads }, arguments, &mut registers)
                };
            }
        }
    }

    /// # Safety
    ///
    /// As for [`run`](Self::run).
    unsafe fn one(&self, at: &At, arguments: &[u64], registers: &mut [u64]) {
        let mut next = 0;
        while let Some(Step { when, act }) = self.steps.get(next) {
            next += 1;
            if when.is_some_and(|when| registers[when] == 0) {
                continue;
            }
            let value = |value: Value, registers: &[u64]| match value {
                Value::Register(register) => registers[register],
                Value::Number(number) => number,
                Value::Parameter(number) => arguments.get(number).copied().unwrap_or(0),
                Value::Thread => at.thread.into(),
                Value::Threads => at.threads.into(),
                Value::Block => at.block.into(),
                Value::Blocks => at.blocks.into(),
            };
            match *act {
                Act::Compute(to, compute, from) => {
                    let [a, b, c] = from.map(|from| value(from, registers));
                    registers[to] = compute(a, b, c);
                }
                Act::Load(to, from, width) => {
                    let from = value(from, registers) as usize;
                    let mut bytes = [0; 8];
                    let from = ptr::with_exposed_provenance::<u8>(from);
                    // SAFETY: the kernel reads there, which the caller allows.
                    unsafe { ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), width.bytes) };
                    registers[to] = width.extended(u64::from_le_bytes(bytes));
                }
                Act::Store(to, from, width) => {
                    let to = value(to, registers) as usize;
                    let bytes = value(from, registers).to_le_bytes();
                    let to = ptr::with_exposed_provenance_mut::<u8>(to);
                    // SAFETY: the kernel writes there, which the caller allows.
                    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), to, width.bytes) };
                }
                Act::Branch(to) => next = to,
                Act::Return => return,
            }
        }
    }
}

/// The names of one kernel, and their meaning.
struct Reader<'a> {
    names: Vec<&'a str>,
    registers: HashMap<&'a str, usize>,
    labels: HashMap<&'a str, usize>,
}

impl<'a> Reader<'a> {
    fn register(&mut self, name: &'a str) -> usize {
        let next = self.registers.len();
        *self.registers.entry(name).or_insert(next)
    }

    fn value(&mut self, name: &'a str) -> Result<Value, String> {
        let name = name.trim_matches(['[', ']']);
        Ok(match name {
            "%tid.x" => Value::Thread,
            "%ntid.x" => Value::Threads,
            "%ctaid.x" => Value::Block,
            "%nctaid.x" => Value::Blocks,
            _ if name.starts_with('%') => Value::Register(self.register(name)),
            _ => match (self.names.iter().position(|known| *known == name), number(name)) {
                (Some(parameter), _) => Value::Parameter(parameter),
                (None, Some(number)) => Value::Number(number),
                (None, None) => return Err(format!("`{name}` is no value")),
            },
        })
    }

    fn step(&mut self, line: &'a str) -> Result<Step, String> {
        let mut words = words(line);
        let guard = words.first().and_then(|word| word.strip_prefix('@'));
        let when = guard.map(|guard| self.register(guard));
        if when.is_some() {
            words.remove(0);
        }
        let unknown = || format!("`{line}` is not among what the double knows");
        let act = match words[..] {
            ["ret"] => Act::Return,
            ["bra", label] => Act::Branch(*self.labels.get(label).ok_or_else(unknown)?),
            [operation, to, from] if let Some(width) = moves(operation, "ld.") => {
                Act::Load(self.register(to), self.value(from)?, width)
            }
            [operation, to, from] if let Some(width) = moves(operation, "st.") => {
                Act::Store(self.value(to)?, self.value(from)?, width)
            }
            [operation, to, ref from @ ..] => {
                let compute = computes(operation).ok_or_else(unknown)?;
                let mut values = [Value::Number(0); 3];
                for (value, from) in values.iter_mut().zip(from) {
                    *value = self.value(from)?;
                }
                Act::Compute(self.register(to), compute, values)
            }
            _ => return Err(unknown()),
        };
        Ok(Step { when, act })
    }
}

impl Width {
    /// A value of this width as a register holds it.
    fn extended(self, value: u64) -> u64 {
        let free = 64 - 8 * self.bytes as u32;
        match self.is_signed {
            true => ((value << free).cast_signed() >> free).cast_unsigned(),
            false => value,
        }
    }
}

/// The value that a load or a store of global memory moves; `None` for other instructions.
fn moves(operation: &str, prefix: &str) -> Option<Width> {
    let rest = operation.strip_prefix(prefix)?;
    let ty = rest.strip_prefix("global.").unwrap_or(rest);
    let (sign, bits) = ty.split_at_checked(1)?;
    let bits: usize = bits.parse().ok()?;
    let known = ["s", "u", "b"].contains(&sign) && [8, 16, 32, 64].contains(&bits);
    known.then_some(Width { bytes: bits / 8, is_signed: sign == "s" })
}

/// An integer, or the bits of an `f32` or an `f64`.
fn number(text: &str) -> Option<u64> {
    if let Some(bits) = text.strip_prefix("0f").or_else(|| text.strip_prefix("0d")) {
        return u64::from_str_radix(bits, 16).ok();
    }
    text.parse().ok().or_else(|| text.parse().ok().map(i64::cast_unsigned))
}

fn words(text: &str) -> Vec<&str> {
    text.split([' ', '\t', '\n', ',']).filter(|word| !word.is_empty()).collect()
}
