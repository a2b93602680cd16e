"""What is done to sessions in other places, through the agh that is installed there."""
