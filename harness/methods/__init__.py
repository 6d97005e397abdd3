"""The methods: SpecPrefill, its reference and its rivals, one idea a file.

:data:`METHODS` is the whole registry; a class is imported when it is used, never before.
"""

METHODS: dict[str, str] = {
    "full": "harness.methods.full:Full",
    "truncate_middle": "harness.methods.truncate_middle:TruncateMiddle",
    "random": "harness.methods.controls:RandomChunks",
    "sink_recent": "harness.methods.controls:SinkRecent",
    "oracle": "harness.methods.controls:Oracle",
    "rag": "harness.methods.rag:Rag",
    "llmlingua": "harness.methods.llmlingua.method:LlmLingua",
    "minference": "harness.methods.minference:MInference",
    "snapkv": "harness.methods.snapkv.method:SnapKV",
    "gemfilter": "harness.methods.gemfilter.method:GemFilter",
    "draft_verify": "harness.methods.draft_verify:DraftVerify",
    "specprefill": "harness.methods.specprefill.method:SpecPrefill",
}
"""Method name → ``module:Class``, in the order in which tables list them."""
