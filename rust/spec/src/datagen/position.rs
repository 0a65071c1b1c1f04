//! Where in an item's program an event belongs: six fields, all of them the identity.

use std::fmt;

use super::outline::PositionRef;

/// The kind of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum StepKind {
    /// The item itself.
    Root,
    /// A step that does work.
    #[default]
    Leaf,
    /// A frame of steps one after another.
    Sequence,
    /// A frame that repeats.
    Loop,
    /// A frame that expands children.
    Branch,
    /// A frame that is entered or not.
    Conditional,
    /// A frame that chooses one of several.
    Router,
    /// A frame that maps and reduces.
    MapReduce,
    /// A frame that is a pipeline of its own.
    SubPipeline,
}

impl StepKind {
    /// Every kind.
    pub const ALL: [Self; 9] = [
        Self::Root,
        Self::Leaf,
        Self::Sequence,
        Self::Loop,
        Self::Branch,
        Self::Conditional,
        Self::Router,
        Self::MapReduce,
        Self::SubPipeline,
    ];

    /// The name, as stored.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Root => "root",
            Self::Leaf => "leaf",
            Self::Sequence => "sequence",
            Self::Loop => "loop",
            Self::Branch => "branch",
            Self::Conditional => "conditional",
            Self::Router => "router",
            Self::MapReduce => "map_reduce",
            Self::SubPipeline => "sub_pipeline",
        }
    }

    /// The kind of this name.
    #[must_use]
    pub fn parse(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A position: equal only when all six fields are.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub struct StepPosition {
    /// The step's name; empty only for the item itself (kind root).
    pub step_name: String,
    /// Its kind.
    pub step_kind: StepKind,
    /// A number among steps of one name, from 0.
    pub step_index: i64,
    /// The frame around it.
    pub enclosing_step: Option<String>,
    /// The router or conditional that chose it.
    pub selector_step: Option<String>,
    /// Loop counters, outermost first.
    pub iteration: Vec<i64>,
}

impl StepPosition {
    /// The leaf step of this name.
    #[must_use]
    pub fn leaf(step_name: impl Into<String>) -> Self {
        Self { step_name: step_name.into(), ..Self::default() }
    }

    /// The item itself: where a failure outside any step belongs.
    #[must_use]
    pub fn root() -> Self {
        Self { step_kind: StepKind::Root, ..Self::default() }
    }

    /// The same position at these loop counters, outermost first.
    #[must_use]
    pub fn at(mut self, iteration: impl Into<Vec<i64>>) -> Self {
        self.iteration = iteration.into();
        self
    }

    /// The same position, borrowed.
    #[must_use]
    pub fn borrowed(&self) -> PositionRef<'_> {
        PositionRef {
            step_name: &self.step_name,
            step_kind: self.step_kind,
            step_index: self.step_index,
            enclosing_step: self.enclosing_step.as_deref(),
            selector_step: self.selector_step.as_deref(),
            iteration: (&self.iteration).into(),
        }
    }
}

/// For messages, such as `refine/draft[1, 0]`; only the six fields identify a position.
impl fmt::Display for StepPosition {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(frame) = &self.enclosing_step {
            write!(formatter, "{frame}/")?;
        }
        match self.step_name.as_str() {
            "" => formatter.write_str(self.step_kind.name())?,
            name => formatter.write_str(name)?,
        }
        if self.step_index != 0 {
            write!(formatter, "#{}", self.step_index)?;
        }
        if !self.iteration.is_empty() {
            write!(formatter, "{:?}", self.iteration)?;
        }
        Ok(())
    }
}
