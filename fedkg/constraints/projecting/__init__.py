"""What hard linear rules demand of each sample's answers, and the nearest answers that keep it."""
