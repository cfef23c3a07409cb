"""What does a proxy cost for each token? Ours and others in front of one worker."""
