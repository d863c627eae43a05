"""What a translation says about the heads: measures, attribution, alignment, ablation."""
