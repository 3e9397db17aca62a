//! Tables of the documents that are made without a device: layouts of reports, codes of counters,
//! worked examples of models. Owns what each of our numbers is computed by: the code that decodes,
//! programs and predicts elsewhere in this program; refuses to type any of them again.

use super::{Quotient, formula, list};
use clscope_metrics::builtin;
use clscope_microbench::cl::{DeviceFacts, DeviceKind};
use clscope_microbench::job::Scalar;
use clscope_microbench::peak::peak_of;
use clscope_models::latency::{Workload, tightest};
use clscope_models::prior;
use clscope_oa::flex::{self, FlexEvent, Programmed};
use clscope_oa::format::{Ticks, Width};
use clscope_oa::sampling;
use clscope_oa::{Format, Generation, Layout, Published};

/// What a number is computed by.
#[derive(Clone, Copy, Debug, PartialEq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Computed {
    /// Dwords of a report of this counter select.
    Dwords(u32),
    /// The dword of GPU_TICKS in it.
    TicksDword(u32),
    /// The dword of a counter: `A7`.
    Dword(u32, &'static str),
    /// The byte of the high byte of an A counter.
    HighByte(u32, u8),
    /// The lowest bit of a field of the register of a programmable counter.
    Bit(u8, Field),
    /// The code of a filter that is called so.
    Code(Field, &'static str),
    /// The value of the register where a counter has these codes: fine, coarse, increment.
    Register(u8, [u8; 3]),
    /// The A counter that a figure of the built-in set reads.
    ReadBy(&'static str),
    /// Bytes of the buffer of reports of a code.
    BufferBytes(u8),
    /// Operations a cycle of a Gen9.5 of 24 EUs.
    Peak(Scalar),
    /// Cycles of a warp at a resource, by a worksheet.
    Cycles(Resource),
    /// Additions a cycle and unit, of a workload of so many warps and additions for each access.
    Solution(usize, f64, f64),
    /// Warps needed by the vendor's guide: of a GPU, so many additions for each access, and whether
    /// with the latency of additions.
    Guide(usize, f64, bool),
    /// What the model of an experiment gives, by the place among its outputs, of its parameters:
    /// those of the document but for these.
    Model(
        &'static str,
        usize,
        #[serde(deserialize_with = "list")] &'static [(&'static str, Quotient)],
    ),
}

/// A field of a register.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Field {
    /// Fine event filter.
    Fine,
    /// Coarse event filter.
    Coarse,
    /// Increment event.
    Increment,
}

/// A resource of the worksheet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resource {
    /// CUDA cores.
    Cores,
    /// Special functions.
    Special,
    /// Banks of local memory.
    Banks,
    /// Global memory.
    Memory,
    /// Issue.
    Issue,
    /// The one that takes longest.
    Tightest,
}

/// What a kernel's warp does in the worked example (Volkov 2016, table 3.2), and what a unit of the
/// Maxwell can (table 3.3).
mod example {
    pub const LANES: f64 = 32.0;
    pub const ADDS: f64 = 100.0;
    pub const SPECIAL: f64 = 5.0;
    /// Without conflict, and with two passes.
    pub const LOCAL: [f64; 2] = [10.0, 10.0];
    /// Coalesced, and at a stride of two words.
    pub const GLOBAL: [f64; 2] = [5.0, 5.0];
    pub const CORES: f64 = 128.0;
    pub const SFUS: f64 = 32.0;
    pub const BANKS: f64 = 32.0;
    pub const BYTES_A_CYCLE: f64 = 10.4;
    pub const ISSUES: f64 = 4.0;
    /// Issued beside another, and issued again (table 3.4).
    pub const DUAL: f64 = 5.0;
    pub const AGAIN: f64 = 15.0;
}

/// The document's GPUs: memory and add latency, throughputs of accesses, additions and issue
/// (Volkov 2016, table 4.1).
const GPUS: [Workload; 5] = [
    gpu(444.0, 20.0, 0.0268, 0.25, 0.5),
    gpu(434.0, 24.0, 0.0277, 0.25, 0.5),
    gpu(513.0, 18.0, 0.0599, 1.0, 1.0),
    gpu(301.0, 9.0, 0.1338, 4.0, 4.0),
    MAXWELL,
];

/// The last of them.
pub(crate) const MAXWELL: Workload = gpu(368.0, 6.0, 0.0814, 4.0, 4.0);

const fn gpu(memory: f64, add: f64, accesses: f64, additions: f64, issue: f64) -> Workload {
    Workload {
        memory_latency: memory,
        add_latency: add,
        memory_throughput: accesses,
        add_throughput: additions,
        issue_throughput: issue,
    }
}

/// The layout of a counter select as the thesis's GPU has it.
fn layout(select: u32) -> Option<&'static Layout> {
    let of = Format::ALL.into_iter().find(|f| !f.is_haswell() && f.select() == select)?;
    Some(of.layout(Published::Tables))
}

fn code(field: Field, code: u8) -> FlexEvent {
    let mut event = FlexEvent::default();
    match field {
        Field::Fine => event.fine = code,
        Field::Coarse => event.coarse = code,
        Field::Increment => event.increment = code,
    }
    event
}

fn register(counter: u8, event: FlexEvent) -> Option<u32> {
    let registers = flex::encode(&[], &[Programmed { counter, event }]).ok()?;
    Some(registers.first()?.value)
}

fn cycles(of: Resource) -> Option<f64> {
    use example as e;
    let passes = |bytes: f64| bytes * e::LANES / e::BYTES_A_CYCLE;
    Some(match of {
        Resource::Cores => e::ADDS * e::LANES / e::CORES,
        Resource::Special => e::SPECIAL * e::LANES / e::SFUS,
        Resource::Banks => (e::LOCAL[0] + 2.0 * e::LOCAL[1]) * e::LANES / e::BANKS,
        Resource::Memory => e::GLOBAL[0] * passes(4.0) + e::GLOBAL[1] * passes(8.0),
        Resource::Issue => {
            let all =
                e::ADDS + e::SPECIAL + e::LOCAL[0] + e::LOCAL[1] + e::GLOBAL[0] + e::GLOBAL[1];
            // Two that are issued together take one turn.
            (all - e::DUAL + e::AGAIN) / e::ISSUES
        }
        Resource::Tightest => {
            use Resource::{Banks, Cores, Issue, Memory, Special};
            let all = [Cores, Special, Banks, Memory, Issue];
            tightest(&all.map(|r| (r, cycles(r).unwrap_or(0.0))))?.1
        }
    })
}

impl Computed {
    /// The number.
    ///
    /// # Errors
    /// Where this program knows no such thing.
    pub(super) fn value(self) -> Result<f64, String> {
        let found = match self {
            Self::Dwords(select) => layout(select).map(|l| l.bytes as f64 / 4.0),
            Self::TicksDword(select) => layout(select).and_then(|l| match l.ticks {
                Ticks::Bits32(at) | Ticks::Bits64(at) => Some(f64::from(at) / 4.0),
                Ticks::None => None,
            }),
            Self::Dword(select, counter) => layout(select).and_then(|l| {
                let (group, index) = counter.split_at_checked(1)?;
                let index: u8 = index.parse().ok()?;
                let block = l.blocks.iter().find(|b| {
                    b.group.name() == group && (b.first..b.first + b.count).contains(&index)
                })?;
                Some((f64::from(block.at) + 4.0 * f64::from(index - block.first)) / 4.0)
            }),
            Self::HighByte(select, index) => layout(select).and_then(|l| {
                let mut highs = l.blocks.iter().filter_map(|b| match b.width {
                    Width::Bits40 { high } if (b.first..b.first + b.count).contains(&index) => {
                        Some(f64::from(high) + f64::from(index - b.first))
                    }
                    _ => None,
                });
                highs.next()
            }),
            Self::Bit(counter, field) => {
                register(counter, code(field, 15)).map(|bits| f64::from(bits.trailing_zeros()))
            }
            Self::Code(field, word) => {
                let none = FlexEvent::default().meaning();
                let called = |c: &u8| {
                    let meaning = code(field, *c).meaning();
                    match field {
                        Field::Increment => meaning == format!("cycles with {word}"),
                        _ => meaning == format!("{none}, {word}"),
                    }
                };
                (0..16u8).find(called).map(f64::from)
            }
            Self::Register(counter, [fine, coarse, increment]) => {
                register(counter, FlexEvent { fine, coarse, increment }).map(f64::from)
            }
            Self::ReadBy(figure) => builtin::core(Generation::Gen9).and_then(|set| {
                let metric = set.metrics.into_iter().find(|m| m.symbol == figure)?;
                let text = metric.equation.text().to_owned();
                text.split_once("A ")?.1.split(' ').next()?.parse().ok()
            }),
            Self::BufferBytes(code) => Some(sampling::buffer_bytes(code) as f64),
            Self::Peak(scalar) => {
                let kind = DeviceKind::Gpu;
                let of = DeviceFacts { kind, intel_units: Some(24), ..DeviceFacts::default() };
                peak_of(&of, scalar).map(|peak| peak.operations_per_cycle)
            }
            Self::Cycles(of) => cycles(of),
            Self::Solution(gpu, n, alpha) => {
                GPUS.get(gpu).map(|of| 32.0 * alpha * of.throughput(n, alpha))
            }
            Self::Guide(gpu, alpha, corrected) => GPUS.get(gpu).map(|of| match corrected {
                true => prior::guide_corrected(of, alpha),
                false => prior::guide(of, alpha),
            }),
            Self::Model(name, output, given) => {
                let of = formula(name).ok_or("it is no model with parameters")?;
                let of_these = of.with(given.iter().map(|(name, value)| (*name, value.0)))?;
                of.outputs(&of_these).nth(output).map(|o| o.2)
            }
        };
        found.ok_or_else(|| "this program knows no such thing".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::super::{How, Ours, all};

    /// What is computed agrees with what is printed, but where the experiment says why not.
    #[test]
    fn tables_are_those_of_the_documents() {
        let differs = [
            "increment, first counter",
            "257 items, the same",
            "the same by the formula as printed",
        ];
        for e in all().filter(|e| matches!(e.how, How::Compute(_))) {
            for row in e.rows {
                let Ours::Computed(by) = row.ours else { panic!("{}: {}", e.name, row.what) };
                let ours =
                    by.value().unwrap_or_else(|why| panic!("{}, {}: {why}", e.name, row.what));
                let ours = ours * row.times;
                let printed = row.printed[0].unwrap();
                // Places and codes are as they are; of the rest documents print two digits or more.
                let near = (ours - printed).abs() <= 0.03 * printed.abs();
                let places = ["dword", "byte", "bit", "code", "register", "A counter"];
                let exact = !places.contains(&row.unit) || ours == printed;
                assert_eq!(
                    near && exact,
                    !differs.contains(&row.what),
                    "{}, {}: {ours}",
                    e.name,
                    row.what
                );
            }
        }
    }
}
