"""The constant words that conditions give as reason, each with where it stands and what helps.

Where it stands: a condition, or Stalled or Reconciling, which Ready then repeats.
"""

SERVING = "Serving"
"""Ready: This generation serves, and a token came back through a router."""

INVALID_SPEC = "InvalidSpec"
"""Stalled: The declaration breaks a rule that the API server did not hold it to (an older CRD).
Correct the field that is named, or update the CRD. What runs goes on."""
DOES_NOT_FIT = "DoesNotFit"
"""Stalled: The workers cannot be packed onto `accelerator.count` GPUs. Lower replicas or quotas,
or raise count; `splitpool plan` shows the arithmetic. What runs goes on."""
SHARING_UNSUPPORTED = "SharingUnsupported"
"""Stalled: The sharing mode does not exist for this accelerator. Choose another `sharing.mode`."""
MODEL_NAME_CONFLICT = "ModelNameConflict"
"""Stalled: An older pool serves a model of this name. Rename the model, or delete the other
pool."""
FOREIGN_OBJECT = "ForeignObject"
"""Stalled: An object with the name of a child belongs to somebody else; the message says which and
whose. Rename the pool or delete the object; the operator looks again every 15 s."""
WORKER_REFUSES = "WorkerRefuses"
"""Stalled: A worker cannot serve this declaration, for the reason in its own words."""
QUOTA_TOO_SMALL = "QuotaTooSmall"
"""Stalled: The model does not fit the quota; the message has the numbers. Raise `vram`, or lower
`maxModelLen`."""
MODEL_NOT_FOUND = "ModelNotFound"
"""Stalled or Reconciling: The model is not where `model.source` says, or its claim does not exist.
Correct the source, or create the claim."""
ENFORCEMENT_TOO_WEAK = "EnforcementTooWeak"
"""Stalled, QuotaEnforced: The workers see a weaker fence than `sharing.minimumEnforcement`. Lower
it, or use a mode or a driver that enforces more."""
NOT_STALLED = "NotStalled"
"""Stalled (False): Nothing has to be changed by anybody."""

CREATING = "Creating"
"""Reconciling: Objects are being created or changed."""
APPLY_FAILED = "ApplyFailed"
"""Reconciling: The API server refuses an object (rights, quota, an admission webhook); the message
is its own. Tried again, at the latest after two minutes."""
PREDECESSOR_TERMINATING = "PredecessorTerminating"
"""Reconciling: An object of a deleted pool of this name is still there. Ends by itself."""
ROLLING_OUT = "RollingOut"
"""Reconciling: Not every worker runs the present declaration yet."""
STARTING = "WorkersStarting"
"""Reconciling, AutoscalingActive: Workers load their model. If the message says that pods wait for
volumes, devices or network, `kubectl describe pod` names which."""
PODS_REFUSED = "PodsRefused"
"""Reconciling: The API server refuses the pods (ResourceQuota, Pod Security, LimitRange). Raise
the limit, or change the pool."""
UNSCHEDULABLE = "Unschedulable"
"""Reconciling: No node takes a worker; the scheduler's sentence and what would help."""
WAITING_FOR_GPU = "WaitingForGPU"
"""Reconciling, AutoscalingActive (False): No GPU has room. Free or add one, or lower replicas or
quotas."""
IMAGE_PULL_FAILED = "ImagePullFailed"
"""Reconciling: An image, of the worker or of the model, cannot be pulled. Correct its name, or
give the node access to the registry."""
CONTAINER_CANNOT_START = "ContainerCannotStart"
"""Reconciling: A Secret or ConfigMap is missing, or the image has no such program. Create it, or
correct `podTemplate`."""
MODEL_DOWNLOAD_FAILED = "ModelDownloadFailed"
"""Reconciling: The download of an `hf://` model ends with an error, whose last line is told.
Correct the source, or give the pod a token or a way out."""
OOM_KILLED = "OOMKilled"
"""Reconciling: A worker went over its memory limit. Raise `hostMemory` of its class."""
CRASH_LOOP = "CrashLoop"
"""Reconciling: A worker ends again and again; its last words are told. See `kubectl logs
--previous`."""
ROUTER_BEHIND = "RouterBehind"
"""Reconciling: A router does not know this generation yet, or none was found."""
PROBE_FAILED = "ProbeFailed"
"""Reconciling: Workers are ready, but no token came back through the router. See its logs."""
SETTLED = "Settled"
"""Reconciling (False): Nothing is left to do."""

AVAILABLE = "Available"
"""InteractiveAvailable, BatchAvailable: All workers of the class are ready."""
DEGRADED = "Degraded"
"""InteractiveAvailable, BatchAvailable: Some workers of the class are ready."""
SCALED_TO_ZERO = "ScaledToZero"
"""InteractiveAvailable, BatchAvailable: The class has no replicas; True where it wakes when
requests wait."""
NO_WORKER = "NoReadyWorker"
"""InteractiveAvailable, BatchAvailable: No worker of the class is ready."""

FENCE_SEEN = "FenceSeen"
"""QuotaEnforced: Every worker has seen a fence around its quota that something else than itself
holds."""
COOPERATIVE_ONLY = "CooperativeOnly"
"""QuotaEnforced (False): The workers keep to their quotas by themselves only."""
NOT_REPORTED = "NotReported"
"""QuotaEnforced (Unknown): A worker has not said yet which fence it sees."""

OFF = "Off"
"""AutoscalingActive (False): Replicas stay as declared."""
EXTERNAL = "External"
"""AutoscalingActive (False): Replicas belong to another autoscaler."""
STEADY = "Steady"
"""AutoscalingActive: Signals are read, and nothing has to change."""
SCALED_OUT = "ScaledOut"
"""AutoscalingActive: Workers were added; the message and `lastScaleReason` say why."""
SCALED_IN = "ScaledIn"
"""AutoscalingActive: Workers were taken away after a quiet window."""
WOKEN = "Woken"
"""AutoscalingActive: A class at zero gets a worker, for requests wait."""
GAVE_WAY = "GaveWay"
"""AutoscalingActive: Batch gave memory to interactive."""
BOUNDED = "WithinBounds"
"""AutoscalingActive: Replicas were moved into the declared bounds or the GPU budget."""
COOLING_DOWN = "CoolingDown"
"""AutoscalingActive: A change is wanted, and the last one has to show its effect first."""
MORE_REPLICAS_DO_NOT_HELP = "MoreReplicasDoNotHelp"
"""AutoscalingActive (False): First tokens are late, but not because they wait. Shorten prompts,
raise `prefillChunk` or the target, or use a faster GPU."""
AT_MAXIMUM = "AtMaximum"
"""AutoscalingActive (False): More workers are wanted than `maxReplicas` allows. Raise it."""
NO_SIGNALS = "NoSignals"
"""AutoscalingActive (False): Replicas stay as they are: Prometheus cannot be asked, or what it
says is missing, stale or not a number; the message says which."""
