//! Kernels made of a frame of the page and the examples that belong in it.

use warpbell::{Module, Sharing};
use warpbell_kernels::toolchain::Variant;
use warpbell_tests::documented_blocks;

pub const LANES: usize = 32;
pub const MODES: [(&str, Sharing); 2] = [("exclusive", Sharing::Exclusive), ("shared", Sharing::Shared)];

/// A kernel for each example of a kind, sharing mode, and change of the text.
pub struct Examples {
    pub module: Module,
    examples: Vec<(String, &'static str)>,
}

impl Examples {
    /// Those marked `cuda FRAME body`, in the block `cuda FRAME frame`; of each of `marks` (`""`, `" lost"`) too.
    /// `before` stands before the kernels. `changes`: what is put in place of a text of the frame, each in a kernel of
    /// its own.
    pub fn compile(frame: &str, marks: &[&str], before: &str, changes: &[(&str, &str)]) -> Examples {
        let whole = documented_blocks(&format!("cuda{frame} frame")).next().expect("a frame");
        let (head, kernel) = whole.split_at(whole.find("WARPBELL_KERNEL").expect("a kernel"));
        let (mut source, mut examples) = (format!("{head}{before}"), Vec::new());
        let name = kernel.split(['(', ',']).nth(1).expect("its name");
        for mark in marks {
            for (number, body) in documented_blocks(&format!("cuda{frame} body{mark}")).enumerate() {
                assert!(kernel.contains("    // the example\n"), "the frame says where an example goes");
                let example = kernel.replace("    // the example\n", &format!("{body}\n"));
                for (mode, _) in MODES {
                    for (at, (from, to)) in changes.iter().enumerate() {
                        let called = format!("{name}{}_{number}_{mode}_{at}", mark.replace(' ', "_"));
                        source += &example
                            .replace(from, to)
                            .replace(&format!("({name},"), &format!("({called},"))
                            .replace("sharing::shared", &format!("sharing::{mode}"));
                        source += "\n";
                        examples.push((called, body));
                    }
                }
            }
        }
        assert!(!examples.is_empty(), "no examples of{frame}{marks:?}");
        let compiled = Variant::text("device-library.cu", &source).quick().load();
        let module = compiled.unwrap_or_else(|error| panic!("{error}")).into();
        Examples { module, examples }
    }

    /// Name and text of each kernel for a sharing mode, and for the change of this number.
    pub fn of(&self, mode: &str, change: usize) -> impl Iterator<Item = (&str, &'static str)> {
        let end = format!("_{mode}_{change}");
        let found = self.examples.iter().filter(move |(name, _)| name.ends_with(&end));
        found.map(|(name, body)| (name.as_str(), *body))
    }
}

/// What the test of volumes puts in place of the mapping that the frame names.
pub const MAPPINGS: [&str; 5] = ["round_robin", "hashed", "by_cta", "nearest", "chunk_after_chunk"];

/// A frame as the page has it.
pub const AS_IT_IS: &[(&str, &str)] = &[("", "")];
