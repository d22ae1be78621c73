//! The encoding of plan nodes that DataFusion's does not know.

use std::sync::Arc;

use coscan_datafusion::remote::Unencoded;
use coscan_upstream::{UnclaimedExec, unclaimed};
use datafusion::common::{Result, internal_datafusion_err, internal_err, not_impl_err};
use datafusion::execution::TaskContext;
use datafusion::physical_plan::ExecutionPlan;
use datafusion_proto::physical_plan::{
    DefaultPhysicalExtensionCodec, PhysicalExtensionCodec, PhysicalPlanDecodeContext,
    PhysicalProtoConverterExtension,
};
use datafusion_proto::protobuf::PhysicalPlanNode;
use prost::Message;

use crate::scan::ClusterScan;

/// Encodes scans with the parts that DataFusion leaves out, and nodes without a state.
#[derive(Debug)]
pub(crate) struct Codec;

/// An encoded node.
#[derive(Clone, PartialEq, Message)]
struct Encoded {
    /// A scan as DataFusion encodes it. Empty for [`UnclaimedExec`].
    #[prost(bytes = "vec", optional, tag = "1")]
    scan: Option<Vec<u8>>,
    /// The other parts of the scan, as JSON.
    #[prost(string, tag = "2")]
    unencoded: String,
}

impl PhysicalExtensionCodec for Codec {
    fn try_encode(
        &self,
        node: Arc<dyn ExecutionPlan>,
        buffer: &mut Vec<u8>,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<()> {
        let encoded = if node.is::<UnclaimedExec>() {
            Encoded { scan: None, unencoded: String::new() }
        } else if let Some(scan) = node.downcast_ref::<ClusterScan>() {
            let unencoded = serde_json::to_string(&scan.unencoded);
            let unencoded = unencoded.map_err(|error| internal_datafusion_err!("{error}"))?;
            let scan = converter.execution_plan_to_proto(&scan.scan, &DefaultPhysicalExtensionCodec {})?;
            Encoded { scan: Some(scan.encode_to_vec()), unencoded }
        } else {
            return not_impl_err!("{} cannot be sent", node.name());
        };
        encoded.encode(buffer).map_err(|error| internal_datafusion_err!("{error}"))
    }

    fn try_decode(
        &self,
        bytes: &[u8],
        inputs: &[Arc<dyn ExecutionPlan>],
        context: &TaskContext,
        converter: &dyn PhysicalProtoConverterExtension,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let malformed =
            |error: &dyn std::fmt::Display| internal_datafusion_err!("a plan is malformed: {error}");
        let encoded = Encoded::decode(bytes).map_err(|error| malformed(&error))?;
        match (encoded.scan, inputs) {
            (None, [input]) => Ok(unclaimed(Arc::clone(input))),
            (Some(scan), []) => {
                let scan = PhysicalPlanNode::decode(scan.as_slice()).map_err(|error| malformed(&error))?;
                let codec = DefaultPhysicalExtensionCodec {};
                let scan = converter
                    .proto_to_execution_plan(&scan, &PhysicalPlanDecodeContext::new(context, &codec))?;
                let unencoded: Unencoded =
                    serde_json::from_str(&encoded.unencoded).map_err(|error| malformed(&error))?;
                unencoded.add_to(&scan, &context.runtime_env())
            }
            _ => internal_err!("a plan is malformed: a node has {} inputs", inputs.len()),
        }
    }
}
